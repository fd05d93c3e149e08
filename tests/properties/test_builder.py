"""Who chooses the arguments of a given class is told what comes of them."""

import runpy
from collections.abc import Callable
from typing import Any

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import check_property
from headcheck.properties.families.contract import (
    BUILDER_HINT,
    the_weights_are_where_the_exercise_says,
)
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import Status

EXERCISE = BY_SLUG["two_dimensional_output"]
GIVEN = runpy.run_path(str(EXERCISE.folder / "solution.py"))
Wrapper: Any = GIVEN["MultiHeadAttentionWrapper"]


def judge(build: Callable[[int, int], Any]) -> Verdict:
    namespace = {**GIVEN, "two_dimensional_wrapper": build}
    prop = the_weights_are_where_the_exercise_says
    harness = Harness(make_subject(namespace), EXERCISE.contract)
    return check_property(prop, harness, EXERCISE.plan_cases()[prop])


def test_the_right_arguments_are_accepted() -> None:
    assert judge(lambda d, n: Wrapper(d, 1, n, 0.0, num_heads=2)).status is Status.PASSED


def test_another_width_is_told_of_the_output() -> None:
    message = judge(lambda d, n: Wrapper(d, 2, n, 0.0, num_heads=2)).message
    assert "expected  shape (1, 3, 2) at output" in message
    assert "got       shape (1, 3, 4)" in message
    assert BUILDER_HINT in message and "d_out" not in message


def test_heads_of_another_width_are_told_of_their_weights() -> None:
    message = judge(lambda d, n: Wrapper(d, 2, n, 0.0, num_heads=1)).message
    assert "at heads.0.W_query.weight" in message and "how many heads are asked for" in message
