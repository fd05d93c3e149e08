"""The search for the worst error: right algorithms stay within the limit, wrong ones do not."""

import pytest
import torch

from benchmarks import worst_error
from benchmarks.worst_error import KNOWN, LIKE_CASES, Setting, find_worst, measure_outputs
from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.terms.case import Case
from tests.properties.conftest import WRONG

KINDS = [(what, dtype) for what in worst_error.MEASURES for dtype in sorted(PRECISIONS)]


@pytest.mark.parametrize(("what", "dtype"), KINDS)
def test_right_algorithms_stay_within_the_limit(
    what: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worst_error, "KNOWN", ())
    worst = find_worst(what, dtype, LIKE_CASES, examples=12, max_tokens=12)
    assert worst.settings_tried > 3
    assert 0 < worst.ratio <= 1, worst.where


@pytest.mark.deep
@pytest.mark.parametrize(("what", "dtype"), KINDS)
def test_right_algorithms_stay_within_the_limit_when_climbed_for(
    what: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worst_error, "KNOWN", ())
    worst = find_worst(what, dtype, LIKE_CASES, examples=400)
    assert worst.ratio <= 1, worst.where


@pytest.mark.parametrize("setting", KNOWN, ids=str)
def test_known_excesses_are_within_the_limit(setting: Setting) -> None:
    assert max(measure_outputs(setting).values()) <= 1


def test_a_wrong_algorithm_is_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worst_error, "RIGHT", {"no scale": WRONG["no scale"]})
    case = Case(tokens=5, context_length=5, d_in=4, heads=2, head_dim=3, seed=1)
    assert measure_outputs(Setting(case, "causal", "nowhere"))["no scale"] > 1e6
    assert torch.equal(
        worst_error.make_mask(Setting(case, "random", "nowhere")).diagonal(),
        torch.ones(5, dtype=torch.bool),
    )
