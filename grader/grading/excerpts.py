"""Excerpts of the student's code for the record: the lines to look at and a few lines around them.

The lines come from the submission's process, which may send anything. This module only limits the
number and length of the excerpts and marks the requested lines; the renderers sanitise the text.
"""

from collections.abc import Iterable

from headcheck.grader.reading.excerpts import MAX_LINES, SourceLines
from headcheck.grader.report.records import Excerpt
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.violations.violation import SubmissionFailed

MAX_EXCERPTS = 8
"""the maximum number of excerpts in a record"""
MAX_LENGTH = 16_000
"""the maximum length of one excerpt, in characters"""

SourceLocation = tuple[int | None, int | None]
"""a cell number (None in a module) and a line number within that cell (None if unknown)"""


def collect_excerpts(session: Session, locations: Iterable[SourceLocation]) -> tuple[Excerpt, ...]:
    """Fetch the lines around these locations; empty if the submission's process has exited."""
    known = sorted({(cell or 0, line) for cell, line in locations if line is not None})
    requested = [(cell or None, line) for cell, line in known[:MAX_EXCERPTS]]
    if not requested or not session.is_alive:
        return ()
    try:
        fetched = session.fetch_excerpts(requested)[:MAX_EXCERPTS]
    except SubmissionFailed:
        return ()
    return tuple(make_excerpt(lines, requested) for lines in fetched)


def make_excerpt(source: SourceLines, requested: Iterable[tuple[int | None, int]]) -> Excerpt:
    """Return the excerpt of some lines, with the requested ones marked."""
    text = "\n".join(source.text[:MAX_LENGTH].split("\n")[:MAX_LINES])
    lines = range(source.line, source.line + text.count("\n") + 1)
    marked = {line for cell, line in requested if cell == source.cell and line in lines}
    return Excerpt(source.cell, source.line, text, tuple(sorted(marked)))
