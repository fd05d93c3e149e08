"""What was judged, kept: runs, submissions, verdicts, and what people decided about them.

A submission is finished in one transaction, with its bytes, its judgement and its verdicts.
Whatever kills the process, what was finished is there and the rest is not: the same command goes on
with the rest.
"""

import difflib
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, Table, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from grader.cohort import database, manifest
from grader.cohort.database import LOCK, NoStore, writing
from grader.cohort.intake import HandIn
from grader.cohort.manifest import Manifest
from grader.cohort.schema import (
    comments,
    contents,
    judgements,
    overrides,
    runs,
    submissions,
    verdicts,
)
from grader.report import SubmissionRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """One run, and the settings it was made with."""

    id: int
    name: str
    created: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file, or the reason why there are none; and how to read them."""

    digest: str
    kind: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Stored:
    """One file of a student, as it stands in a run, with its verdicts."""

    run: int
    student: str
    name: str
    email: str
    handle: str
    file: str
    attempt: int
    late: bool
    submitted: str | None
    content: str
    kind: str
    judged: str
    records: tuple[SubmissionRecord, ...]

    @property
    def when(self) -> datetime | None:
        """The time of handing in, where it is known."""
        return None if self.submitted is None else datetime.fromisoformat(self.submitted)


@dataclass(frozen=True, slots=True)
class Override:
    """What a person decided that an exercise is worth; no score takes an earlier one back."""

    run: str
    student: str
    exercise: str
    score: float | None
    reason: str
    author: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """What a person wrote; without an exercise about all that was handed in."""

    run: str
    student: str
    exercise: str
    text: str
    author: str
    created: str = ""


def content_of(data: bytes, kind: str) -> Content:
    """A file's bytes under their digest."""
    return Content(hashlib.sha256(data).hexdigest(), kind, data)


def no_content(problem: str) -> Content:
    """What stands for a file that could not be had: the same for the same reason."""
    return Content(hashlib.sha256(b"problem\0" + plain(problem).encode()).hexdigest(), "none", None)


@contextmanager
def opened(place: str, *, create: bool = False) -> Iterator["Store"]:
    """The store in a file or at a URL. Raises NoStore."""
    with database.opened(place, create=create) as engine:
        yield Store(engine)


@dataclass(frozen=True, slots=True)
class Store:
    """A store that is open."""

    engine: Engine

    # ------------------------------------------------------------------------ judging

    def begin(self, name: str, wanted: Manifest) -> Run:
        """The newest run of that name if it has these settings, else a new one."""
        if not name or "/" in name:
            raise NoStore(f"{name!r}: a run's name has no slash, and is not empty")
        with self._write() as connection:
            # Two processes that begin the same run at once must not make two of it.
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
            newest = _newest(connection, name)
            if newest is not None and newest.manifest.key == wanted.key:
                return newest
            row = {
                "name": plain(name),
                "key": wanted.key,
                "created": now(),
                "manifest": manifest.encoded(wanted),
            }
            made = connection.execute(insert(runs).values(row).returning(runs.c.id)).scalar_one()
            return Run(made, name, row["created"], wanted)

    def describe(self, run: Run, told: Manifest) -> Run:
        """Replace what a run's manifest says beside its settings, such as its sandbox."""
        assert told.key == run.manifest.key, "other settings are another run"
        with self._write() as connection:
            changed = update(runs).where(runs.c.id == run.id)
            connection.execute(changed.values(manifest=manifest.encoded(told)))
        return replace(run, manifest=told)

    def known(self, key: str) -> dict[tuple[str, str], int]:
        """The judgements under these settings, by content and kind."""
        columns = select(judgements.c.content, judgements.c.kind, judgements.c.id)
        with self.engine.connect() as connection:
            rows = connection.execute(columns.where(judgements.c.key == key))
            return {(content, kind): id_ for content, kind, id_ in rows}

    def finish(
        self,
        run: Run | None,
        key: str,
        content: Content,
        hand_ins: Sequence[HandIn],
        records: Sequence[SubmissionRecord],
    ) -> None:
        """Keep what judging these bytes gave, and in a run that these students handed them in.

        All of it is kept or nothing. Without a run nobody's grade changes.
        """
        with self._write() as connection:
            judgement = _judgement(connection, key, content, records)
            if run is not None:
                _link(connection, run, [(each, judgement) for each in hand_ins])

    def link(self, run: Run, known: Iterable[tuple[HandIn, int]]) -> None:
        """Say who handed in what was judged before."""
        with self._write() as connection:
            _link(connection, run, list(known))

    def settle(self, run: Run, hand_ins: Iterable[HandIn]) -> None:
        """Forget what else the run has of these students: earlier attempts, files taken back."""
        places = {place(each) for each in hand_ins}
        students = {plain(each.student.id) for each in hand_ins}
        there = select(submissions.c.id, submissions.c.place, submissions.c.student)
        with self._write() as connection:
            rows = connection.execute(there.where(submissions.c.run == run.id)).all()
            gone = [r.id for r in rows if r.student in students and r.place not in places]
            for some in _batches(gone):
                connection.execute(delete(submissions).where(submissions.c.id.in_(some)))

    # ------------------------------------------------------------------------ reading

    def runs(self) -> list[Run]:
        """All runs, the oldest first."""
        with self.engine.connect() as connection:
            return [_run(row) for row in connection.execute(select(runs).order_by(runs.c.id))]

    def newest(self, name: str) -> Run:
        """The newest run of a name. Raises NoStore."""
        with self.engine.connect() as connection:
            found = _newest(connection, name)
        if found is None:
            names = ", ".join(dict.fromkeys(run.name for run in self.runs()))
            raise NoStore(f"there is no run {name!r}; there are: {names or 'none yet'}")
        return found

    def standing(self, name: str) -> list[Stored]:
        """What stands under a run's name: everybody's files in the newest run that has them.

        By student, attempt and file.
        """
        last = (
            select(submissions.c.student, func.max(submissions.c.run).label("run"))
            .join(runs, runs.c.id == submissions.c.run)
            .where(runs.c.name == plain(name))
            .group_by(submissions.c.student)
            .subquery()
        )
        rows = (
            select(submissions, judgements.c.content, judgements.c.kind, judgements.c.judged)
            .join(judgements, judgements.c.id == submissions.c.judgement)
            .join(
                last,
                (last.c.student == submissions.c.student) & (last.c.run == submissions.c.run),
            )
        )
        with self.engine.connect() as connection:
            found = connection.execute(rows).all()
            records = _records(connection, {row.judgement for row in found})
        # Sorted here: databases sort text by rules of their own.
        return sorted(
            (_stored(row, records.get(row.judgement, ())) for row in found),
            key=lambda each: (each.student, each.attempt, each.file),
        )

    def of(self, name: str, student: str) -> list[Stored]:
        """What stands for one student. Raises NoStore for somebody who handed in nothing."""
        self.newest(name)
        standing = self.standing(name)
        theirs = [each for each in standing if each.student == plain(student)]
        if not theirs:
            close = difflib.get_close_matches(student, {each.student for each in standing}, n=3)
            hint = f"; did you mean {', '.join(sorted(close))}?" if close else ""
            raise NoStore(f"{name}/{student}: nobody of that id has handed in anything{hint}")
        return theirs

    def judged(self, key: str) -> dict[tuple[str, str], tuple[SubmissionRecord, ...]]:
        """The verdicts under these settings, by content and kind; they are nobody's yet."""
        known = self.known(key)
        with self.engine.connect() as connection:
            records = _records(connection, set(known.values()))
        return {which: records.get(judgement, ()) for which, judgement in known.items()}

    def content(self, digest: str) -> bytes | None:
        """Bytes that were judged. None for what could not be had."""
        with self.engine.connect() as connection:
            wanted = select(contents.c.compressed).where(contents.c.digest == digest)
            found = connection.execute(wanted).scalar()
        return None if found is None else zlib.decompress(found)

    # ------------------------------------------------------------------------ deciding

    def override(self, decided: Override) -> None:
        """Add a decision; it holds from now on, whatever is judged later."""
        self._decide(overrides, msgspec.to_builtins(decided))

    def comment(self, written: Comment) -> None:
        """Add a comment."""
        self._decide(comments, msgspec.to_builtins(written))

    def overrides(self, name: str) -> dict[tuple[str, str], Override]:
        """The decisions that hold under a run's name, by student and exercise."""
        newest = {(each.student, each.exercise): each for each in self._decided(overrides, name)}
        return {key: Override(*each[1:]) for key, each in newest.items() if each.score is not None}

    def comments(self, name: str) -> list[Comment]:
        """The comments under a run's name, the oldest first."""
        return [Comment(*each[1:]) for each in self._decided(comments, name)]

    def _decide(self, table: Table, row: Mapping[str, Any]) -> None:
        cleaned = {k: plain(v) if isinstance(v, str) else v for k, v in row.items()}
        with self._write() as connection:
            connection.execute(insert(table).values({**cleaned, "created": now()}))

    def _decided(self, table: Table, name: str) -> Sequence[Any]:
        wanted = select(table).where(table.c.run == plain(name)).order_by(table.c.id)
        with self.engine.connect() as connection:
            return connection.execute(wanted).all()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with writing(self.engine) as connection:
            yield connection


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def plain(text: str) -> str:
    """Text that every database takes: neither the character 0 nor halves of surrogate pairs."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def place(hand_in: HandIn) -> str:
    """What makes a file of a run another one: whose it is, which attempt, what it is called."""
    parts = (hand_in.student.id, str(hand_in.attempt), hand_in.file)
    return hashlib.sha256("\0".join(map(plain, parts)).encode()).hexdigest()


def _newest(connection: Connection, name: str) -> Run | None:
    wanted = select(runs).where(runs.c.name == plain(name)).order_by(runs.c.id.desc()).limit(1)
    row = connection.execute(wanted).one_or_none()
    return None if row is None else _run(row)


def _run(row: Any) -> Run:
    return Run(row.id, row.name, row.created, manifest.decoded(row.manifest))


def _add(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row; whether it was not there."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    added = dialect.insert(table).values(row).on_conflict_do_nothing()
    return connection.execute(added.returning(*table.primary_key)).first() is not None


def _judgement(
    connection: Connection, key: str, content: Content, records: Sequence[SubmissionRecord]
) -> int:
    """The judgement of these bytes under these settings: made now, or by another process before."""
    if content.data is not None:
        compressed = zlib.compress(content.data)
        row = {"digest": content.digest, "size": len(content.data), "compressed": compressed}
        _add(connection, contents, row)
    which = {"content": content.digest, "kind": content.kind, "key": key}
    added = _add(connection, judgements, {**which, "judged": now()})
    wanted = select(judgements.c.id).filter_by(**which)
    id_ = int(connection.execute(wanted).scalar_one())
    rows = [_verdict(id_, i, record) for i, record in enumerate(records)]
    if added and rows:
        connection.execute(insert(verdicts), rows)
    return id_


def _verdict(judgement: int, position: int, record: SubmissionRecord) -> dict[str, Any]:
    nobody = replace(record, file="", student="")
    return {
        "judgement": judgement,
        "position": position,
        "exercise": record.exercise,
        "name": None if record.name is None else plain(record.name),
        "status": record.status,
        "score": record.score,
        "max_score": record.max_score,
        "seconds": record.seconds,
        "diagnosis": record.diagnosis[0].name if record.diagnosis else None,
        "record": plain(msgspec.json.encode(nobody).decode()),
    }


def _link(connection: Connection, run: Run, linked: Sequence[tuple[HandIn, int]]) -> None:
    """Say that these files have these judgements, whatever they had before."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    rows: dict[str, dict[str, Any]] = {}
    for hand_in, judgement in linked:  # one statement must not meet a row twice
        rows.setdefault(place(hand_in), _submission(run, hand_in, judgement))
    for some in _batches(list(rows.values())):
        added = dialect.insert(submissions).values(some)
        changed = {
            name: added.excluded[name]
            for name in ("name", "email", "handle", "late", "submitted", "judgement")
        }
        connection.execute(
            added.on_conflict_do_update(index_elements=["run", "place"], set_=changed)
        )


def _submission(run: Run, hand_in: HandIn, judgement: int) -> dict[str, Any]:
    when = hand_in.submitted
    return {
        "run": run.id,
        "student": plain(hand_in.student.id),
        "name": plain(hand_in.student.shown),
        "email": plain(hand_in.student.email),
        "handle": plain(hand_in.handle),
        "file": plain(hand_in.file),
        "place": place(hand_in),
        "attempt": hand_in.attempt,
        "late": hand_in.late,
        "submitted": None if when is None else when.astimezone(UTC).isoformat(timespec="seconds"),
        "judgement": judgement,
    }


def _batches(rows: Sequence[T], size: int = 500) -> Iterator[list[T]]:
    """A statement has a limit of values."""
    return (list(rows[i : i + size]) for i in range(0, len(rows), size))


def _records(connection: Connection, wanted: set[int]) -> dict[int, tuple[SubmissionRecord, ...]]:
    """The records of judgements, in the order of judging."""
    found: dict[int, list[SubmissionRecord]] = {}
    for some in _batches(sorted(wanted)):
        rows = (
            select(verdicts.c.judgement, verdicts.c.record)
            .where(verdicts.c.judgement.in_(some))
            .order_by(verdicts.c.judgement, verdicts.c.position)
        )
        for judgement, text in connection.execute(rows):
            record = msgspec.json.decode(text, type=SubmissionRecord, strict=False)
            found.setdefault(judgement, []).append(record)
    return {judgement: tuple(records) for judgement, records in found.items()}


def _stored(row: Any, records: Sequence[SubmissionRecord]) -> Stored:
    return Stored(
        run=row.run,
        student=row.student,
        name=row.name,
        email=row.email,
        handle=row.handle,
        file=row.file,
        attempt=row.attempt,
        late=row.late,
        submitted=row.submitted,
        content=row.content,
        kind=row.kind,
        judged=row.judged,
        records=tuple(replace(each, file=row.file, student=row.student) for each in records),
    )
