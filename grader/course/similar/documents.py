"""Read files as token sequences and passages as text, in confined children; nothing is executed.

Untrusted files are parsed in a sandbox only, as for grading.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from headcheck.exercises import BY_SLUG, Exercise, starter
from headcheck.grader import run
from headcheck.grader.course import CourseError
from headcheck.grader.course.similar.pairs import (
    Document,
    LineRange,
    Pair,
    Passage,
    SimilarSubmissions,
    find_similar,
)
from headcheck.grader.course.store import bundle
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.course.store.store import Store
from headcheck.grader.reading import submission
from headcheck.grader.reading.excerpts import MAX_LINES
from headcheck.grader.reading.submission import Submission, UnreadableSubmission
from headcheck.grader.reading.token_units import Unit
from headcheck.grader.sandbox.grader_side.session import ChildFactory, Session
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.violation import SubmissionFailed

MAX_SHOWN = 40
"""the number of passages per pair whose text is displayed"""


@dataclass(frozen=True, slots=True)
class PassageText:
    """A passage with the text of both sides."""

    passage: Passage
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class SimilarityReport:
    """The comparison of a run's files, with passage texts for every pair."""

    run: str
    similar: SimilarSubmissions
    passage_texts: tuple[tuple[PassageText, ...], ...]
    """of each pair, in their order"""
    students: int
    unread: tuple[str, ...]
    """files that could not be parsed"""


class HandoutError(CourseError):
    """A handout that cannot be read."""


def compare_run(
    store: Store, name: str, handouts: Sequence[Path], *, trusted: bool
) -> SimilarityReport:
    """Compare the current files of a run. `handouts` are files that all students were given.

    The starters and the solutions of the exercises count as handouts, too.
    Raises StoreError, ManifestError, HandoutError, SandboxError.
    """
    asked = store.load_newest_run(name).manifest.settings.exercise
    current = store.load_graded_files(name)
    with run.create_sandbox(trusted=trusted) as sandbox:
        known = [*_list_handouts(current, asked), *map(_read_handout, handouts)]
        base = [Document("", "", units) for each in known if (units := read_units(sandbox, *each))]
        documents, unread = _read_documents(sandbox, store, current)
        similar = find_similar(documents, base)
        texts = tuple(_read_passages(sandbox, store, pair) for pair in similar.pairs)
    students = len({each.student for each in documents})
    return SimilarityReport(name, similar, texts, students, tuple(unread))


def _read_documents(
    sandbox: ChildFactory, store: Store, current: Sequence[GradedFile]
) -> tuple[list[Document], list[str]]:
    """Return the documents and the files that cannot be parsed; equal bytes are read once."""
    read: dict[tuple[str, str], tuple[Unit, ...] | None] = {}
    documents, unread = [], []
    for each in current:
        key = each.content_key
        if key not in read:
            data = store.load_content(each.content)
            own = None if data is None else bundle.unpack(data, each.kind)
            read[key] = None if own is None else read_units(sandbox, own.data, own.kind)
        units = read[key]
        if units is None:
            unread.append(f"{each.student}: {each.file}")
        else:
            documents.append(Document(each.student, each.file, units, key))
    return documents, unread


def _list_handouts(
    current: Sequence[GradedFile], asked: Exercise | None
) -> list[tuple[bytes, str]]:
    """Return the starters and solutions of a run's exercises, and of the one that it asked for."""
    slugs = {record.exercise or "" for each in current for record in each.records}
    exercises = [BY_SLUG[slug] for slug in sorted(slugs & BY_SLUG.keys())]
    # The folder of an exercise may have been moved since, or have no solution.
    if asked is not None and not asked.is_ours and asked.has_solution:
        exercises.append(asked)
    texts = [text for each in exercises for text in (starter.render_module(each), each.solution)]
    return [(text.encode(), "py") for text in texts]


def _read_handout(path: Path) -> tuple[bytes, str]:
    """Raises HandoutError."""
    handed_out = Submission(path, str(path))
    try:
        return submission.read_submission(handed_out, Limits().source), handed_out.kind
    except (UnreadableSubmission, KeyError) as error:
        raise HandoutError(f"{path}: {error}; name a .ipynb or a .py file") from None


def read_units(sandbox: ChildFactory, data: bytes, kind: str) -> tuple[Unit, ...] | None:
    """Return a file's units of tokens; None if it cannot be parsed."""
    with closing(Session(sandbox, data, kind, Limits())) as session:
        try:
            session.read_outline()
            return tuple(session.fetch_units())
        except SubmissionFailed:
            return None


def _read_passages(sandbox: ChildFactory, store: Store, pair: Pair) -> tuple[PassageText, ...]:
    """Return a pair's passages with their texts, the longest ones if there are too many."""
    longest = sorted(pair.passages, key=lambda each: -each.words)[:MAX_SHOWN]
    shown = [each for each in pair.passages if each in longest]
    ones = _read_ranges(sandbox, store, pair.one, [each.one for each in shown])
    others = _read_ranges(sandbox, store, pair.other, [each.other for each in shown])
    return tuple(map(PassageText, shown, ones, others))


def _read_ranges(
    sandbox: ChildFactory, store: Store, document: Document, ranges: Sequence[LineRange]
) -> list[str]:
    content, kind = document.source
    own = bundle.unpack(store.load_content(content) or b"", kind)
    with closing(Session(sandbox, own.data, own.kind, Limits())) as session:
        try:
            session.read_outline()
            return [_read_range(session, each) for each in ranges]
        except SubmissionFailed:
            return [""] * len(ranges)


def _read_range(session: Session, line_range: LineRange) -> str:
    """Return the lines of a range, up to the limit of excerpts. Raises SubmissionFailed."""
    last = min(line_range.last, line_range.first + MAX_LINES - 1)
    positions = [(line_range.cell, line) for line in range(line_range.first, last + 1)]
    lines = {
        excerpt.line + i: text
        for excerpt in session.fetch_excerpts(positions)
        for i, text in enumerate(excerpt.text.split("\n"))
    }
    return "\n".join(lines[i] for _, i in positions if i in lines)
