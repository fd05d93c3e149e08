"""Deadlines of a course: what `[deadlines.RUN]` in a course file says of late work.

    [deadlines.week-1]
    due = 2026-02-01T18:00:00+01:00
    grace = "15 min"                  # so much later is still in time
    penalty = "10 % per day"          # or steps: { "1 h" = "5 %", "1 day" = "20 points" }
    at_most = "50 %"
    cut_off = "3 days"                # later than that, nothing counts; or a date and time
    marked_late = "10 %"              # for a mark LATE without a time

    [deadlines.week-1.extensions]     # of students and groups
    s17 = "2 days"
    blue = 2026-02-05T18:00:00+01:00

Periods begin where the grace ends. A percentage is a share of the points that somebody earned.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from headcheck.exercises.contract_checks import suggest
from headcheck.exercises.toml_lines import Place, Table

KEYS = ("due", "grace", "penalty", "at_most", "cut_off", "marked_late", "extensions")
YEARS = range(1970, 3000)
NUMBER = r"(?P<number>\d{1,4}(?:\.\d{1,2})?)"
PERIOD = re.compile(rf"{NUMBER} ?(?P<unit>min|minute|h|hour|day|week)s?")
AMOUNT = re.compile(rf"{NUMBER} ?(?P<unit>%|points?)")
RATE = re.compile(r"(?P<amount>.+) per (?P<unit>day|hour)")
UNITS = {
    "min": timedelta(minutes=1),
    "minute": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
NOTHING = timedelta()


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount to take off: a percentage of the earned points, or points."""

    percent: float = 0.0
    points: float = 0.0

    def times(self, count: int) -> "Amount":
        """Return so many times the amount."""
        return Amount(self.percent * count, self.points * count)

    def scale(self, factor: float) -> "Amount":
        """Return the same where a point counts as so many points."""
        return Amount(self.percent, self.points * factor)


@dataclass(frozen=True, slots=True)
class Step:
    """The amount that is taken off work that is late by more than a period."""

    after: timedelta
    amount: Amount


@dataclass(frozen=True, slots=True)
class Extension:
    """A later due time for a student, named by any id, or for a group, named by its name."""

    who: str
    due: datetime | None = None
    added: timedelta | None = None
    """one of the two is set"""
    of_group: bool | None = None
    """whether it is a group's or a student's; None if only the submissions can show that"""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When the work of a run is due, and what late work loses."""

    due: datetime
    grace: timedelta = NOTHING
    rate: Amount | None = None
    """what each started period costs"""
    every: timedelta = UNITS["day"]
    steps: tuple[Step, ...] = ()
    """sorted by their periods"""
    at_most: Amount | None = None
    cut_off_after: timedelta | None = None
    cut_off_at: datetime | None = None
    """nothing counts that is later than the one of these two that is set"""
    marked_late: Amount | None = None
    """what work loses that its system marks as late, if its time is not known"""
    extensions: tuple[Extension, ...] = ()


def read_deadlines(value: object, place: Place) -> Mapping[str, Deadline]:
    """Return the deadlines of a course file by the names of runs.

    Raises the type of error that `place` defines.
    """
    if not isinstance(value, dict):
        raise place.fail_type(value, "a table of runs: write [deadlines.RUN]")
    return {run: _read_deadline(each, place.enter(run)) for run, each in value.items()}


def _read_deadline(table: object, place: Place) -> Deadline:
    if not isinstance(table, dict):
        raise place.fail_type(table, "a table with `due`")
    for key in table:
        if key not in KEYS:
            raise place.enter(key).fail(f"there is no key {key!r}; {suggest(key, KEYS)}")
    if "due" not in table:
        raise place.fail("says no `due`: add one, as in due = 2026-02-01T18:00:00+01:00")

    def amount(key: str) -> Amount | None:
        return _read_amount(table[key], place.enter(key)) if key in table else None

    due = _read_time(table["due"], place.enter("due"))
    cut_off = table.get("cut_off")
    rate, every, steps = _read_penalty(table.get("penalty"), place.enter("penalty"))
    at = place.enter("cut_off")
    return Deadline(
        due=due,
        grace=_read_period(table["grace"], place.enter("grace")) if "grace" in table else NOTHING,
        rate=rate,
        every=every,
        steps=steps,
        at_most=amount("at_most"),
        cut_off_after=_read_period(cut_off, at) if isinstance(cut_off, str) else None,
        cut_off_at=None
        if cut_off is None or isinstance(cut_off, str)
        else _read_later(cut_off, due, at),
        marked_late=amount("marked_late"),
        extensions=_read_extensions(table.get("extensions", {}), due, place.enter("extensions")),
    )


def _read_penalty(value: object, place: Place) -> tuple[Amount | None, timedelta, tuple[Step, ...]]:
    """Return the amount for each started period, the period, and the steps."""
    if value is None:
        return None, UNITS["day"], ()
    if isinstance(value, dict) and value:
        return None, UNITS["day"], _read_steps(value, place)
    rate = RATE.fullmatch(value) if isinstance(value, str) else None
    if rate is None:
        wanted = '"10 % per day", "2 points per hour", or steps as in { "1 h" = "5 %" }'
        raise place.fail_type(value, wanted)
    return _read_amount(rate["amount"], place), UNITS[rate["unit"]], ()


def _read_steps(table: Table, place: Place) -> tuple[Step, ...]:
    """Return the steps, sorted by their periods. Later work never loses less."""
    steps = {
        after: Step(_read_period(after, place.enter(after)), _read_amount(each, place.enter(after)))
        for after, each in table.items()
    }
    ordered = sorted(steps.items(), key=lambda item: item[1].after)
    for (before, earlier), (after, later) in pairwise(ordered):
        less = later.amount.percent <= earlier.amount.percent
        if less and later.amount.points <= earlier.amount.points:
            raise place.enter(after).fail(f"takes off no more than {before!r}")
        if later.after == earlier.after:
            raise place.enter(after).fail(f"{before!r} and {after!r} are equally long")
    return tuple(step for _, step in ordered)


def _read_extensions(value: object, due: datetime, place: Place) -> tuple[Extension, ...]:
    if not isinstance(value, dict):
        raise place.fail_type(value, 'a table of students and groups, as in s17 = "2 days"')
    return tuple(_read_extension(who, each, due, place.enter(who)) for who, each in value.items())


def _read_extension(who: str, value: object, due: datetime, place: Place) -> Extension:
    if isinstance(value, str):
        return Extension(who.strip(), added=_read_period(value, place))
    return Extension(who.strip(), due=_read_later(value, due, place))


def _read_later(value: object, due: datetime, place: Place) -> datetime:
    time = _read_time(value, place, ', or a period, as in "2 days"')
    if time < due:
        raise place.fail(f"`{'.'.join(place.keys)}` is before `due`")
    return time


def _read_time(value: object, place: Place, other: str = "") -> datetime:
    """Return a time in UTC. Without an offset it would be another time in every country."""
    if isinstance(value, datetime) and value.tzinfo is not None and value.year in YEARS:
        return value.astimezone(UTC)
    wanted = f"a date and time with an offset, as in 2026-02-01T18:00:00+01:00{other}"
    raise place.fail_type(value, wanted)


def _read_period(value: object, place: Place) -> timedelta:
    found = PERIOD.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise place.fail_type(value, 'a period, as in "15 min", "12 h", "2 days" or "1 week"')
    return float(found["number"]) * UNITS[found["unit"]]


def _read_amount(value: object, place: Place) -> Amount:
    found = AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if found is None or (found["unit"] == "%" and float(found["number"]) > 100):
        raise place.fail_type(value, 'an amount, as in "10 %" or "5 points"')
    number = float(found["number"])
    return Amount(percent=number) if found["unit"] == "%" else Amount(points=number)
