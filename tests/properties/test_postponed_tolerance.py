"""The part of a tolerance that costs little never exceeds the whole."""

import pytest
import torch

from headcheck.exercises import BY_SLUG, SERIES
from headcheck.grader.batch.recording import Recorder
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.comparison import check_close
from headcheck.properties.terms.depth import Depth

MANY_SCORES = 1 << 18


SAMPLE = ("multi_head_attention", "attention_sink", "differential_attention")


@pytest.mark.sampled("slug", SERIES, SAMPLE)
def test_the_least_part_is_below_the_limits_on_every_planned_case(slug: str) -> None:
    exercise = BY_SLUG[slug].at(Depth.USUAL)
    cases = {case for each in exercise.plan_cases().values() for case in each}
    recorder = Recorder(exercise.contract)
    for case in sorted(cases, key=str):
        if case.batch * case.heads * case.tokens**2 > MANY_SCORES:
            continue
        for limit in recorder.get_context(case).expected.tolerances:
            assert bool((limit.least <= limit.exact).all()), case
            assert bool((limit.exact <= limit.float32).all()), case


def test_a_small_error_is_accepted_without_the_whole_bound() -> None:
    def compute() -> tuple[torch.Tensor, torch.Tensor]:
        raise AssertionError("nobody needs it")

    tolerance = Tolerance.postpone(torch.tensor([1e-3]), compute)
    exact = torch.tensor([1.0], dtype=torch.float64)
    assert check_close(exact + 5e-4, exact, tolerance)
    assert check_close(exact + 5e-4, exact, (tolerance + tolerance).map(lambda limit: limit * 2))
    with pytest.raises(AssertionError, match="nobody needs it"):
        check_close(exact + 5e-3, exact, tolerance)


def test_a_larger_error_is_compared_with_the_whole_bound() -> None:
    limits = torch.tensor([1e-2]), torch.tensor([1e-1])
    tolerance = Tolerance.postpone(torch.tensor([1e-3]), lambda: limits)
    exact = torch.tensor([1.0], dtype=torch.float64)
    assert check_close(exact + 5e-3, exact, tolerance)
    assert not check_close(exact + 5e-2, exact, tolerance)
