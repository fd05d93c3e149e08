"""An exercise is measured on the sizes that are asked for."""

from benchmarks.sized import resize_exercise
from headcheck.properties.terms.depth import Depth


def test_most_cases_have_the_sizes_that_are_asked_for() -> None:
    exercise = resize_exercise(3, {"tokens": 23, "context_length": 23}).at(Depth.USUAL)
    cases = [case for chosen in exercise.plan_cases().values() for case in chosen]
    assert sum(case.tokens == 23 for case in cases) > len(cases) / 2
