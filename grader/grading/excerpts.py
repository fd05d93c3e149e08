"""The student's own lines for the record: those to look at, and some around them.

They come from the process of the submission, which may answer what it likes: only how much is
bounded here, and what is marked is what was asked for. Whoever shows them makes them harmless.
"""

from collections.abc import Iterable

from grader.reading.excerpts import MAX_LINES, SourceLines
from grader.report.records import Excerpt
from grader.sandbox.grader_side.session import Session
from properties.violation import SubmissionFailed

MAX_EXCERPTS = 8
"""how many excerpts a record carries"""
MAX_LENGTH = 16_000
"""how many characters of one"""

SourceLocation = tuple[int | None, int | None]
"""a cell, None in a module, and a line of it, None where that is not known"""


def collect_excerpts(session: Session, locations: Iterable[SourceLocation]) -> tuple[Excerpt, ...]:
    """The lines around these places; none if the process that has the source is gone."""
    known = sorted({(cell or 0, line) for cell, line in locations if line is not None})[
        :MAX_EXCERPTS
    ]
    asked = [(cell or None, line) for cell, line in known]
    if not asked or not session.is_alive:
        return ()
    try:
        return tuple(
            make_excerpt(lines, asked) for lines in session.fetch_excerpts(asked)[:MAX_EXCERPTS]
        )
    except SubmissionFailed:
        return ()


def make_excerpt(shown: SourceLines, asked: Iterable[tuple[int | None, int]]) -> Excerpt:
    """Lines for the record, with those marked that were asked for."""
    text = "\n".join(shown.text[:MAX_LENGTH].split("\n")[:MAX_LINES])
    last = shown.line + text.count("\n")
    marked = (line for cell, line in asked if cell == shown.cell and shown.line <= line <= last)
    return Excerpt(shown.cell, shown.line, text, tuple(sorted(set(marked))))
