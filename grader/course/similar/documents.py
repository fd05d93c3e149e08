"""Files as documents, and places in them as text: read by confined children, never run.

Parsing what strangers wrote is left to a process that can do no harm, as for judging.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from exercises import BY_SLUG, starter
from grader import run
from grader.course import CourseError
from grader.course.similar.pairs import (
    Document,
    LineRange,
    Pair,
    Passage,
    SimilarSubmissions,
    find_similar,
)
from grader.course.store.records import GradedFile
from grader.course.store.store import Store
from grader.reading import submission
from grader.reading.excerpts import MAX_LINES
from grader.reading.submission import Submission, UnreadableSubmission
from grader.reading.token_units import Unit
from grader.sandbox.grader_side.session import ChildFactory, Session
from grader.sandbox.limits import Limits
from properties.violation import SubmissionFailed

MAX_SHOWN = 40
"""of how many passages of a pair the text is shown"""


@dataclass(frozen=True, slots=True)
class PassageText:
    """A passage with the text of both places."""

    passage: Passage
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class SimilarityReport:
    """Everybody's files compared, with the evidence for every pair."""

    run: str
    similar: SimilarSubmissions
    passage_texts: tuple[tuple[PassageText, ...], ...]
    """of each pair, in their order"""
    students: int
    unread: tuple[str, ...]
    """files that could not be taken apart"""


class HandoutError(CourseError):
    """A file that everybody was given, as it is said, and that cannot be read."""


def compare_run(
    store: Store, name: str, given: Sequence[Path], *, trusted: bool
) -> SimilarityReport:
    """Compare what stands under a run's name. `given` are files that everybody had.

    The starters and the solutions of the exercises count as given, too.
    Raises NoStore, NotGiven, SandboxError.
    """
    store.load_newest_run(name)
    standing = store.load_graded_files(name)
    with run.create_sandbox(trusted=trusted) as place:
        known = [*_list_handouts(standing), *map(_read_handout, given)]
        base = [Document("", "", units) for each in known if (units := read_units(place, *each))]
        documents, unread = _read_documents(place, store, standing)
        alike = find_similar(documents, base)
        evidence = tuple(_read_passages(place, store, pair) for pair in alike.pairs)
    students = len({each.student for each in documents})
    return SimilarityReport(name, alike, evidence, students, tuple(unread))


def _read_documents(
    place: ChildFactory, store: Store, standing: Sequence[GradedFile]
) -> tuple[list[Document], list[str]]:
    """What stands, and what of it could not be taken apart; the same bytes are read once."""
    read: dict[tuple[str, str], tuple[Unit, ...] | None] = {}
    documents, unread = [], []
    for each in standing:
        which = (each.content, each.kind)
        if which not in read:
            data = store.load_content(each.content)
            read[which] = None if data is None else read_units(place, data, each.kind)
        units = read[which]
        if units is None:
            unread.append(f"{each.student}: {each.file}")
        else:
            documents.append(Document(each.student, each.file, units, which))
    return documents, unread


def _list_handouts(standing: Sequence[GradedFile]) -> list[tuple[bytes, str]]:
    """What everybody may have who works on the exercises of a run."""
    slugs = {record.exercise or "" for each in standing for record in each.records}
    exercises = [BY_SLUG[slug] for slug in sorted(slugs & BY_SLUG.keys())]
    texts = [text for each in exercises for text in (starter.render_module(each), each.solution)]
    return [(text.encode(), "py") for text in texts]


def _read_handout(path: Path) -> tuple[bytes, str]:
    """Raises NotGiven."""
    handed_out = Submission(path, str(path))
    try:
        return submission.read_submission(handed_out, Limits().source), handed_out.kind
    except (UnreadableSubmission, KeyError) as error:
        raise HandoutError(f"{path}: {error}; name a .ipynb or a .py file") from None


def read_units(place: ChildFactory, data: bytes, kind: str) -> tuple[Unit, ...] | None:
    """A file as words; None if it cannot be taken apart."""
    with closing(Session(place, data, kind, Limits())) as session:
        try:
            session.read_outline()
            return tuple(session.fetch_units())
        except SubmissionFailed:
            return None


def _read_passages(place: ChildFactory, store: Store, pair: Pair) -> tuple[PassageText, ...]:
    """The texts of a pair's passages, the longest ones if there are too many."""
    longest = sorted(pair.passages, key=lambda each: -each.words)[:MAX_SHOWN]
    shown = [each for each in pair.passages if each in longest]
    ones = _read_ranges(place, store, pair.one, [each.one for each in shown])
    others = _read_ranges(place, store, pair.other, [each.other for each in shown])
    return tuple(map(PassageText, shown, ones, others))


def _read_ranges(
    place: ChildFactory, store: Store, document: Document, places: Sequence[LineRange]
) -> list[str]:
    content, kind = document.source
    data = store.load_content(content) or b""
    with closing(Session(place, data, kind, Limits())) as session:
        try:
            session.read_outline()
            return [_read_range(session, each) for each in places]
        except SubmissionFailed:
            return [""] * len(places)


def _read_range(session: Session, place: LineRange) -> str:
    """The lines of a place, as far as they are sent. Raises SubmissionFailed."""
    last = min(place.last, place.first + MAX_LINES - 1)
    asked = [(place.cell, line) for line in range(place.first, last + 1)]
    lines = {
        run.line + i: text
        for run in session.fetch_excerpts(asked)
        for i, text in enumerate(run.text.split("\n"))
    }
    return "\n".join(lines[i] for _, i in asked if i in lines)
