"""What became of the definitions of a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headcheck.exercises import Exercise
from headcheck.grader.report.records import SubmissionRecord

if TYPE_CHECKING:
    from headcheck.grader.grading.open_mode.recognition import Recognition
    from headcheck.properties.binding.binding import NotBound


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one definition."""

    name: str
    record: SubmissionRecord | None = None
    """None if it is not judged"""
    recognition: "Recognition | None" = None
    """what its behaviour shows, if this was asked"""
    resembles: Exercise | None = None
    """the exercise whose name it resembles, if it answers neither this one nor another"""


def list_records(outcomes: Sequence[Outcome]) -> list[SubmissionRecord]:
    """Return the records of the definitions that are judged."""
    return [each.record for each in outcomes if each.record is not None]


def list_unrecognised(
    outcomes: Sequence[Outcome], records: Sequence[SubmissionRecord]
) -> "Mapping[str, NotBound]":
    """Return the definitions that are not recognised, and have none of these records, by name."""
    judged = {record.name for record in records}
    tried = {each.name: each.recognition for each in outcomes if each.name not in judged}
    return {n: found.unbound for n, found in tried.items() if found and found.unbound}


def list_resembling(outcomes: Sequence[Outcome]) -> Mapping[str, Exercise]:
    """Return the definitions that only resemble an exercise by their names, with this exercise."""
    return {each.name: each.resembles for each in outcomes if each.resembles is not None}
