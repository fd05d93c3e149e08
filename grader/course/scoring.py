"""The score of an answer: the points earned, less what is taken off because it came late.

Pure functions, and the only place where points are taken off.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil

from headcheck.grader.report.deadlines import Amount, Deadline, Extension
from headcheck.grader.report.rounding import HUNDREDTH, format_number, round_points, round_sum

NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Lateness:
    """Whether an answer is late, and what this costs."""

    late: bool = False
    amount: Amount = NOTHING
    at_most: Amount | None = None
    too_late: bool = False
    """whether nothing counts"""

    def scale(self, factor: float) -> "Lateness":
        """Return the same where a point counts as so many points."""
        at_most = self.at_most and self.at_most.scale(factor)
        return replace(self, amount=self.amount.scale(factor), at_most=at_most)


IN_TIME = Lateness()


@dataclass(frozen=True, slots=True)
class Score:
    """The points earned, those that count, and why they differ."""

    earned: float
    points: float
    penalty: str = ""
    """such as `10 % late`; empty if nothing is taken off"""


def measure_lateness(
    deadline: Deadline | None,
    extensions: Iterable[Extension],
    submitted: datetime | None,
    *,
    marked: bool,
) -> Lateness:
    """Return how late an answer is, from its time and the extensions of its student.

    `marked` is whether the course system marks the answer as late. The mark decides only if no time
    is known, and costs nothing unless the deadline says so. It knows nothing of extensions.
    """
    if deadline is None:
        return Lateness(late=marked)
    granted = list(extensions)
    if submitted is None:
        known = deadline.marked_late if marked and not granted else None
        return Lateness(marked, known or NOTHING)
    due = find_due(deadline, granted) + deadline.grace
    by = submitted - due
    if by <= timedelta():
        return IN_TIME
    return Lateness(True, _sum_up(deadline, by), deadline.at_most, _is_cut_off(deadline, due, by))


def find_due(deadline: Deadline, extensions: Iterable[Extension]) -> datetime:
    """Return when work is due: the latest of the deadline and the extensions."""
    granted = (each.due or deadline.due + (each.added or timedelta()) for each in extensions)
    return max([deadline.due, *granted])


def _sum_up(deadline: Deadline, by: timedelta) -> Amount:
    """Return what a delay costs: each started period, or the last step that it exceeds."""
    if deadline.rate is not None:
        return deadline.rate.times(ceil(by / deadline.every))
    passed = [step.amount for step in deadline.steps if by > step.after]
    return passed[-1] if passed else NOTHING


def _is_cut_off(deadline: Deadline, due: datetime, by: timedelta) -> bool:
    """Whether an answer is so late that nothing counts; an extension also moves this time."""
    if deadline.cut_off_at is not None:
        return due + by > max(due, deadline.cut_off_at)
    return deadline.cut_off_after is not None and by > deadline.cut_off_after


def compute_score(earned: float, most: float, lateness: Lateness, step: float = HUNDREDTH) -> Score:
    """Return the score of an answer that earned these points, in hundredths.

    A percentage is taken of the points earned, a bonus included. What is left is rounded to the
    step of the course, and is never negative.
    """
    if lateness.too_late:
        return Score(earned, 0.0, "100 % too late" if earned else "")
    taken = min(
        (each for each in (lateness.amount, lateness.at_most) if each is not None),
        key=lambda each: _convert(each, earned),
    )
    left = max(earned - _convert(taken, earned), 0.0)
    if left == earned:
        return Score(earned, earned)
    counted = min(round_points(left, max(most, earned), step), earned)
    shown = f"{format_number(min(taken.percent, 100))} %"
    if not taken.percent:
        shown = f"{format_number(taken.points)} point{'s' * (round_sum(taken.points) != 1)}"
    return Score(earned, counted, f"{shown} late")


def _convert(amount: Amount, earned: float) -> float:
    """Return an amount in points."""
    return amount.points + earned * amount.percent / 100
