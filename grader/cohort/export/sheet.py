"""Sheets that gradebooks hand out to be filled in: reading them, and whom a row is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.cohort.roster import Roster, delimiter, table


@dataclass(frozen=True, slots=True)
class Sheet:
    """A CSV file that the instructor downloaded, cell by cell."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    delimiter: str = ","


def read(path: Path) -> Sheet:
    """A sheet as it is. Raises BadRoster for what is no CSV file."""
    header, rows = table(path)
    text = path.read_text(encoding="utf-8-sig")
    return Sheet(tuple(header), tuple(map(tuple, rows)), delimiter(text))


def student_of(cells: Sequence[str], known: Roster, handles: Mapping[str, str]) -> str | None:
    """The id of the student that cells of a row are about: as handed in, else as rosters know.

    A name or an address counts only if it is one student's.
    """
    for text in cells:
        digits = text.rpartition(" ")[2]  # Moodle's "Participant 123", in any language
        for handle in (text, digits):
            if handle and handle in handles:
                return handles[handle]
    found = known.match("", *(text for text in cells if text.strip()))
    return None if found is None else found.id
