"""As libraries call it: right modules keep the claims, and named wrong ones do not."""

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite
from headcheck.properties import families
from headcheck.properties.families import library_use
from tests.submissions import execute

EXERCISE = BY_SLUG["multi_head_attention"]
RETURN = "        return output\n"
WRONG = {
    # Its weights are read from a list that the constructor filled.
    "it_takes_weights_from_outside": (
        "        return output\n",
        "        self.kept = getattr(self, 'kept', None) or [self.out_proj.weight]\n"
        "        return context @ self.kept[0].T + self.out_proj.bias\n",
    ),
    "it_can_be_mapped_over_an_axis": (
        "        batch, tokens, _ = x.shape\n",
        "        batch, tokens, _ = x.shape\n        assert x.abs().max().item() >= 0\n",
    ),
    "it_runs_under_autocast": (
        'self.is_future[:tokens, :tokens], float("-inf")',
        "self.is_future[:tokens, :tokens], torch.finfo(x.dtype).min",
    ),
}


def list_outcomes(source: str) -> dict[str, str]:
    suite = PropertySuite(execute(source), EXERCISE.contract, 8)
    names = {prop.name for prop in families.list_properties(library_use)}
    return {
        variant.name: outcome.failure or outcome.skipped
        for variant in suite.list_variants(["cpu"])
        if variant.prop.name in names
        for outcome in [suite.get_outcome(variant)]
    }


def test_a_right_module_is_used_as_libraries_do() -> None:
    outcomes = list_outcomes(EXERCISE.solution)
    assert len(outcomes) == 7
    assert not any(outcomes.values())


@pytest.mark.parametrize("name", WRONG)
def test_what_a_library_could_not_use_is_told(name: str) -> None:
    before, after = WRONG[name]
    assert before in EXERCISE.solution
    outcomes = list_outcomes(EXERCISE.solution.replace(before, after))
    assert [each for each, told in outcomes.items() if told]
    assert all(each.startswith(name) for each, told in outcomes.items() if told)


def test_no_exercise_asks_for_it() -> None:
    asked = {prop for exercise in BY_SLUG.values() for prop in exercise.properties}
    assert not asked & set(families.list_properties(library_use))


def test_autocast_is_over_afterwards() -> None:
    list_outcomes(EXERCISE.solution)
    assert not torch.is_autocast_enabled("cpu")
