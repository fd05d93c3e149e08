"""Read the sheets that gradebooks export for filling in."""

import codecs
from dataclasses import dataclass
from pathlib import Path

from headcheck.grader.course.intake.roster import detect_delimiter, read_table


@dataclass(frozen=True, slots=True)
class Sheet:
    """A CSV file that the instructor exported, cell by cell."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    delimiter: str = ","
    bom: bool = False
    """whether it begins with a byte-order mark, which tells some spreadsheets that it is UTF-8"""


def read_sheet(path: Path) -> Sheet:
    """Read a sheet. Raises RosterError if it is no CSV file."""
    header, rows = read_table(path)
    text = path.read_text(encoding="utf-8-sig")
    bom = path.read_bytes().startswith(codecs.BOM_UTF8)
    return Sheet(tuple(header), tuple(map(tuple, rows)), detect_delimiter(text), bom)
