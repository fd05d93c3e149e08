"""Files as documents, and places in them as text: read by confined children, never run.

Parsing what strangers wrote is left to a process that can do no harm, as for judging.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from exercises import BY_SLUG, starter
from grader import run
from grader.course import CohortError
from grader.course.similar.pairs import Document, Found, Pair, Passage, Place, found
from grader.course.store.records import Stored
from grader.course.store.store import Store
from grader.reading import submission
from grader.reading.excerpts import LINES
from grader.reading.submission import Submission, Unopened
from grader.reading.token_units import Unit
from grader.sandbox.grader_side.session import Server, Session
from grader.sandbox.limits import Limits
from properties.violation import SubmissionFailed

SHOWN = 40
"""of how many passages of a pair the text is shown"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage with the text of both places."""

    passage: Passage
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Everybody's files compared, with the evidence for every pair."""

    run: str
    found: Found
    evidence: tuple[tuple[Evidence, ...], ...]
    """of each pair, in their order"""
    students: int
    unread: tuple[str, ...]
    """files that could not be taken apart"""


class NotGiven(CohortError):
    """A file that everybody was given, as it is said, and that cannot be read."""


def compared(store: Store, name: str, given: Sequence[Path], *, trusted: bool) -> Compared:
    """Compare what stands under a run's name. `given` are files that everybody had.

    The starters and the solutions of the exercises count as given, too.
    Raises NoStore, NotGiven, SandboxError.
    """
    store.newest(name)
    standing = store.standing(name)
    with run.sandbox(trusted=trusted) as place:
        known = [*_handed_out(standing), *map(_opened, given)]
        base = [Document("", "", units) for each in known if (units := units_of(place, *each))]
        documents, unread = _documents(place, store, standing)
        alike = found(documents, base)
        evidence = tuple(_evidence(place, store, pair) for pair in alike.pairs)
    students = len({each.student for each in documents})
    return Compared(name, alike, evidence, students, tuple(unread))


def _documents(
    place: Server, store: Store, standing: Sequence[Stored]
) -> tuple[list[Document], list[str]]:
    """What stands, and what of it could not be taken apart; the same bytes are read once."""
    read: dict[tuple[str, str], tuple[Unit, ...] | None] = {}
    documents, unread = [], []
    for each in standing:
        which = (each.content, each.kind)
        if which not in read:
            data = store.content(each.content)
            read[which] = None if data is None else units_of(place, data, each.kind)
        units = read[which]
        if units is None:
            unread.append(f"{each.student}: {each.file}")
        else:
            documents.append(Document(each.student, each.file, units, which))
    return documents, unread


def _handed_out(standing: Sequence[Stored]) -> list[tuple[bytes, str]]:
    """What everybody may have who works on the exercises of a run."""
    slugs = {record.exercise or "" for each in standing for record in each.records}
    exercises = [BY_SLUG[slug] for slug in sorted(slugs & BY_SLUG.keys())]
    texts = [text for each in exercises for text in (starter.module(each), each.solution)]
    return [(text.encode(), "py") for text in texts]


def _opened(path: Path) -> tuple[bytes, str]:
    """Raises NotGiven."""
    handed_out = Submission(path, str(path))
    try:
        return submission.read(handed_out, Limits().source), handed_out.kind
    except (Unopened, KeyError) as error:
        raise NotGiven(f"{path}: {error}; name a .ipynb or a .py file") from None


def units_of(place: Server, data: bytes, kind: str) -> tuple[Unit, ...] | None:
    """A file as words; None if it cannot be taken apart."""
    with closing(Session(place, data, kind, Limits())) as session:
        try:
            session.read()
            return tuple(session.units())
        except SubmissionFailed:
            return None


def _evidence(place: Server, store: Store, pair: Pair) -> tuple[Evidence, ...]:
    """The texts of a pair's passages, the longest ones if there are too many."""
    longest = sorted(pair.passages, key=lambda each: -each.words)[:SHOWN]
    shown = [each for each in pair.passages if each in longest]
    ones = _texts(place, store, pair.one, [each.one for each in shown])
    others = _texts(place, store, pair.other, [each.other for each in shown])
    return tuple(map(Evidence, shown, ones, others))


def _texts(place: Server, store: Store, document: Document, places: Sequence[Place]) -> list[str]:
    content, kind = document.source
    data = store.content(content) or b""
    with closing(Session(place, data, kind, Limits())) as session:
        try:
            session.read()
            return [_text(session, each) for each in places]
        except SubmissionFailed:
            return [""] * len(places)


def _text(session: Session, place: Place) -> str:
    """The lines of a place, as far as they are sent. Raises SubmissionFailed."""
    last = min(place.last, place.first + LINES - 1)
    asked = [(place.cell, line) for line in range(place.first, last + 1)]
    lines = {
        run.line + i: text
        for run in session.excerpts(asked)
        for i, text in enumerate(run.text.split("\n"))
    }
    return "\n".join(lines[i] for _, i in asked if i in lines)
