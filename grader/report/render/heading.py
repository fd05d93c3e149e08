"""The heading of a page on several submissions: the course, the exercises and the day."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from headcheck.exercises import BY_SLUG
from headcheck.grader.report.render.sanitise import sanitise_line

MAX_NAMED = 3
"""the largest number of exercises that a heading names"""
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class Occasion:
    """Facts that the records of submissions lack: the course or its run, and the day."""

    course: str = ""
    day: date | None = None


NO_OCCASION = Occasion()


@dataclass(frozen=True, slots=True)
class Heading:
    """The words above a page; the course and the day are empty if they are not known."""

    course: str
    exercise: str
    day: str

    @property
    def title(self) -> str:
        """The whole heading on one line."""
        return ", ".join(filter(None, (self.course, self.exercise, self.day)))


def make_heading(slugs: Iterable[str | None], occasion: Occasion) -> Heading:
    """Return the heading of a page on answers to these exercises."""
    named = name_exercises(slugs)
    return Heading(sanitise_line(occasion.course), named, format_day(occasion.day))


def name_exercises(slugs: Iterable[str | None]) -> str:
    """Return the titles of these exercises, or how many there are."""
    known = list(dict.fromkeys(slug for slug in slugs if slug))
    if len(known) > MAX_NAMED:
        return f"{len(known)} exercises"
    # Only an exercise that comes with headcheck has a title here.
    names = (BY_SLUG[slug].title if slug in BY_SLUG else sanitise_line(slug) for slug in known)
    return ", ".join(names) or "No exercise"


def format_day(day: date | None) -> str:
    """Return a day as `26 November 2026`, regardless of the locale."""
    return "" if day is None else f"{day.day} {MONTHS[day.month - 1]} {day.year}"
