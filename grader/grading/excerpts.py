"""The student's own lines for the record: those to look at, and some around them.

They come from the process of the submission, which may answer what it likes: only how much is
bounded here, and what is marked is what was asked for. Whoever shows them makes them harmless.
"""

from collections.abc import Iterable

from grader.reading.excerpts import LINES, Lines
from grader.report.records import Excerpt
from grader.sandbox.grader_side.session import Session
from properties.violation import SubmissionFailed

MOST = 8
"""how many excerpts a record carries"""
LONGEST = 16_000
"""how many characters of one"""

Place = tuple[int | None, int | None]
"""a cell, None in a module, and a line of it, None where that is not known"""


def excerpts(session: Session, places: Iterable[Place]) -> tuple[Excerpt, ...]:
    """The lines around these places; none if the process that has the source is gone."""
    known = sorted({(cell or 0, line) for cell, line in places if line is not None})[:MOST]
    asked = [(cell or None, line) for cell, line in known]
    if not asked or not session.alive:
        return ()
    try:
        return tuple(excerpt(lines, asked) for lines in session.excerpts(asked)[:MOST])
    except SubmissionFailed:
        return ()


def excerpt(shown: Lines, asked: Iterable[tuple[int | None, int]]) -> Excerpt:
    """Lines for the record, with those marked that were asked for."""
    text = "\n".join(shown.text[:LONGEST].split("\n")[:LINES])
    last = shown.line + text.count("\n")
    marked = (line for cell, line in asked if cell == shown.cell and shown.line <= line <= last)
    return Excerpt(shown.cell, shown.line, text, tuple(sorted(set(marked))))
