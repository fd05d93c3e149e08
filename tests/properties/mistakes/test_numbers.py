"""Roundings, limits and positions: each is found, and none is taken for another mistake."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue.mistake import Mistake
from headcheck.properties.mistakes.catalogue.numbers import NUMBERS
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.faulty_attention import Computation, make_namespace, restate
from headcheck.properties.mistakes.pipeline import CORRECT, StepOverrides

MASKED = restate(BY_SLUG["masked_multi_head"].contract)
EACH_TENTH = [(m, change) for m in NUMBERS for change in m.variants][::10]


def name_mistakes(overrides: StepOverrides) -> list[str]:
    contract = MASKED
    namespace = make_namespace(contract, Computation((CORRECT.override(overrides),)))
    harness = Harness(make_subject(namespace), contract)
    harness.contract = contract
    return [found.mistake.name for found in diagnose(harness)]


@pytest.mark.sampled(
    ("mistake", "overrides"),
    EACH_TENTH,
    EACH_TENTH[::3],
    ids=lambda each: getattr(each, "name", ""),
)
def test_no_variant_is_taken_for_another_mistake(
    mistake: Mistake, overrides: StepOverrides
) -> None:
    assert name_mistakes(overrides) in ([mistake.name], [])


@pytest.mark.parametrize("mistake", NUMBERS, ids=lambda mistake: mistake.name)
def test_each_mistake_is_named_in_one_of_its_variants(mistake: Mistake) -> None:
    assert any(name_mistakes(overrides) == [mistake.name] for overrides in mistake.variants)
