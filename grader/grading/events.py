"""What happens while submissions are graded, for those who show it."""

from collections.abc import Callable
from dataclasses import dataclass

from headcheck.grader.grading.infer import Target
from headcheck.properties.property import Verdict


@dataclass(frozen=True)
class TargetStarted:
    """A definition is judged from now on, or again in its own terms."""

    target: Target


@dataclass(frozen=True)
class PropertyJudged:
    """A property has its first verdict; each property of a target is announced once."""

    verdict: Verdict


@dataclass(frozen=True)
class SearchAdvanced:
    """A search has tried one more generated case."""

    done: float
    """the used part of its limit"""
    limit: float


Event = TargetStarted | PropertyJudged | SearchAdvanced
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing: nobody follows the grading."""
