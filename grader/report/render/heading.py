"""What a page on several submissions is headed by: the course, the exercises and the day."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from headcheck.exercises import BY_SLUG
from headcheck.grader.report.render.sanitise import sanitise_line

MAX_NAMED = 3
"""how many exercises a heading names"""
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class Occasion:
    """What the records of submissions do not say: the course or its run, and the day."""

    course: str = ""
    day: date | None = None


NO_OCCASION = Occasion()


@dataclass(frozen=True, slots=True)
class Heading:
    """The words above a page; the course and the day are empty where they are not known."""

    course: str
    exercise: str
    day: str

    @property
    def title(self) -> str:
        """All of it on one line."""
        return ", ".join(filter(None, (self.course, self.exercise, self.day)))


def make_heading(slugs: Iterable[str | None], occasion: Occasion) -> Heading:
    """Return the heading of a page on answers to these exercises."""
    return Heading(sanitise_line(occasion.course), name_exercises(slugs), format_day(occasion.day))


def name_exercises(slugs: Iterable[str | None]) -> str:
    """Return the titles of these exercises, or how many there are."""
    known = list(dict.fromkeys(slug for slug in slugs if slug))
    if len(known) > MAX_NAMED:
        return f"{len(known)} exercises"
    return ", ".join(map(name_exercise, known)) or "No exercise"


def name_exercise(slug: str) -> str:
    """Return the title of an exercise that comes with headcheck; another has only its slug."""
    return BY_SLUG[slug].title if slug in BY_SLUG else sanitise_line(slug)


def format_day(day: date | None) -> str:
    """Return a day as `26 November 2026`, in English whatever the locale."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}" if day else ""
