"""The benchmark of right answers scales limits, and says which check lost points."""

from dataclasses import replace

import pytest

from benchmarks.right_answers import describe_loss, list_limit_options
from headcheck.exercises import BY_SLUG
from tests.grader.report.records import EQUATION, SHAPE, make_property, make_submission

RIGHT = make_submission(make_property(SHAPE, "contract"))


@pytest.mark.parametrize(
    ("speed", "options"),
    [
        (1.0, []),
        (0.25, ["--call-seconds", "2.5", "--seconds", "30", "--cpu-seconds", "15"]),
        (0.001, ["--call-seconds", "0.01", "--seconds", "0.12", "--cpu-seconds", "1"]),
    ],
)
def test_the_limits_are_scaled(speed: float, options: list[str]) -> None:
    assert list(list_limit_options(BY_SLUG["causal_attention"], speed)) == options


def test_the_limits_of_an_exercise_are_scaled_too() -> None:
    exercise = replace(BY_SLUG["causal_attention"], limits={"call_s": 40.0})
    assert list(list_limit_options(exercise, 0.5))[:2] == ["--call-seconds", "20"]


def test_the_first_check_that_lost_points_is_named() -> None:
    late = replace(
        make_property(EQUATION), status="not_asked", points=0.0, message="Not tried\n  got"
    )
    untried = replace(make_property(SHAPE, "contract"), status="not_tried", points=0.0)
    record = replace(RIGHT, file="a/slow.py", properties=(untried, late), score=0.0)
    assert describe_loss(record) == f"slow  0 / 2  {EQUATION} not_asked: Not tried"
    assert describe_loss(RIGHT) == ""
