"""What late work loses: the arithmetic, by itself."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.grader.course.scoring import (
    IN_TIME,
    Lateness,
    Score,
    compute_score,
    measure_lateness,
)
from headcheck.grader.report.deadlines import Amount, Deadline, Extension, Step

DUE = datetime(2026, 2, 1, 18, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TEN = Amount(percent=10)
DAILY = Deadline(DUE, grace=15 * MINUTE, rate=TEN, at_most=Amount(percent=50))


def score(deadline: Deadline, by: timedelta, earned: float = 112.0, *granted: Extension) -> Score:
    late = measure_lateness(deadline, granted, DUE + by, marked=False)
    return compute_score(earned, 120.0, late)


@pytest.mark.parametrize(
    ("by", "points", "penalty"),
    [
        (-DAY, 112.0, ""),
        (15 * MINUTE, 112.0, ""),
        (16 * MINUTE, 100.8, "10 % late"),
        (DAY + 15 * MINUTE, 100.8, "10 % late"),
        (DAY + 16 * MINUTE, 89.6, "20 % late"),
        (30 * DAY, 56.0, "50 % late"),
    ],
)
def test_each_started_day_costs_a_share_of_what_was_earned(
    by: timedelta, points: float, penalty: str
) -> None:
    assert score(DAILY, by) == Score(112.0, points, penalty)


def test_points_are_taken_off_by_the_hour_and_no_score_is_negative() -> None:
    hourly = Deadline(DUE, rate=Amount(points=0.5), every=HOUR)
    assert score(hourly, 90 * MINUTE) == Score(112.0, 111.0, "1 point late")
    assert score(hourly, 3 * HOUR) == Score(112.0, 110.5, "1.5 points late")
    assert score(hourly, DAY, 3.0) == Score(3.0, 0.0, "12 points late")
    assert score(hourly, DAY, 0.0) == Score(0.0, 0.0, "")


def test_of_steps_the_last_one_that_is_exceeded_counts() -> None:
    steps = (Step(HOUR, Amount(percent=5)), Step(DAY, Amount(points=20)))
    stepped = Deadline(DUE, steps=steps)
    penalties = [score(stepped, by).penalty for by in (HOUR, HOUR + MINUTE, DAY, 2 * DAY)]
    assert penalties == ["", "5 % late", "5 % late", "20 points late"]


def test_a_cap_may_be_in_another_unit() -> None:
    capped = Deadline(DUE, rate=TEN, at_most=Amount(points=15))
    assert score(capped, DAY) == Score(112.0, 100.8, "10 % late")
    assert score(capped, 2 * DAY) == Score(112.0, 97.0, "15 points late")


def test_nothing_counts_after_the_cut_off() -> None:
    for cut in (
        Deadline(DUE, cut_off_after=2 * DAY),
        Deadline(DUE, rate=TEN, at_most=TEN, cut_off_at=DUE + 2 * DAY),
    ):
        assert score(cut, 2 * DAY).points > 0
        assert score(cut, 2 * DAY + MINUTE) == Score(112.0, 0.0, "100 % too late")


def test_an_extension_moves_the_deadline_and_the_cut_off() -> None:
    cut = Deadline(DUE, rate=TEN, cut_off_at=DUE + DAY)
    until = Extension("s1", due=DUE + 3 * DAY)
    assert score(cut, 3 * DAY, 112.0, until).penalty == ""
    assert score(cut, 3 * DAY + MINUTE, 112.0, until).penalty == "100 % too late"
    assert score(DAILY, 2 * DAY, 112.0, Extension("s1", added=DAY)).penalty == "10 % late"
    both = (until, Extension("blue", added=DAY))
    assert score(DAILY, 3 * DAY, 112.0, *both).penalty == "", "the latest counts"


def test_a_mark_without_a_time_costs_only_what_the_deadline_says() -> None:
    def late(deadline: Deadline | None, *granted: Extension, marked: bool = True) -> Lateness:
        return measure_lateness(deadline, granted, None, marked=marked)

    assert late(None) == late(DAILY) == Lateness(late=True)
    told = Deadline(DUE, marked_late=TEN)
    assert late(told) == Lateness(late=True, amount=TEN)
    assert late(told, Extension("s1", added=DAY)) == Lateness(late=True)
    assert late(told, marked=False) == IN_TIME
    known = measure_lateness(told, (), DUE, marked=True)
    assert known == IN_TIME, "a known time counts, whatever the mark says"


def test_what_is_left_is_rounded_and_a_bonus_is_taken_from_as_well() -> None:
    late = Lateness(True, TEN)
    assert compute_score(112.0, 120.0, late, 0.5) == Score(112.0, 101.0, "10 % late")
    assert compute_score(130.0, 120.0, late) == Score(130.0, 117.0, "10 % late")


amounts = st.builds(Amount, st.floats(0, 100), st.floats(0, 50))
deadlines = st.builds(
    Deadline,
    st.just(DUE),
    grace=st.timedeltas(timedelta(), DAY),
    rate=st.none() | amounts,
    every=st.sampled_from([HOUR, DAY]),
    steps=st.just(()),
    at_most=st.none() | amounts,
    cut_off_after=st.none() | st.timedeltas(timedelta(), 5 * DAY),
    cut_off_at=st.none(),
    marked_late=st.none() | amounts,
    extensions=st.just(()),
)


@given(deadlines, st.timedeltas(-DAY, 10 * DAY), st.timedeltas(timedelta(), DAY), st.floats(0, 120))
def test_later_work_never_has_more_points(
    deadline: Deadline, by: timedelta, later: timedelta, earned: float
) -> None:
    first, second = score(deadline, by, earned), score(deadline, by + later, earned)
    assert 0 <= second.points <= first.points <= first.earned == second.earned
    assert bool(first.penalty) or first.points == first.earned


@given(deadlines, st.timedeltas(-DAY, 10 * DAY), st.timedeltas(timedelta(), 9 * DAY))
def test_an_extension_never_costs_points(
    deadline: Deadline, by: timedelta, added: timedelta
) -> None:
    extended = score(deadline, by, 112.0, Extension("s1", added=added))
    assert extended.points >= score(deadline, by).points
