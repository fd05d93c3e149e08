"""Records to rows of a store and back: what one transaction writes, piece by piece."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Table, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from grader.course.intake.gather import HandIn
from grader.course.store.records import Content, Run, Stored, place, plain
from grader.course.store.schema import contents, judgements, submissions, verdicts
from grader.report.records import SubmissionRecord

T = TypeVar("T")


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _add(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row; whether it was not there."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    added = dialect.insert(table).values(row).on_conflict_do_nothing()
    return connection.execute(added.returning(*table.primary_key)).first() is not None


def keep(
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


def link(connection: Connection, run: Run, linked: Sequence[tuple[HandIn, int]]) -> None:
    """Say that these files have these judgements, whatever they had before."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    rows: dict[str, dict[str, Any]] = {}
    for hand_in, judgement in linked:  # one statement must not meet a row twice
        rows.setdefault(place(hand_in), _submission(run, hand_in, judgement))
    for some in batches(list(rows.values())):
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


def batches(rows: Sequence[T], size: int = 500) -> Iterator[list[T]]:
    """A statement has a limit of values."""
    return (list(rows[i : i + size]) for i in range(0, len(rows), size))


def records_of(connection: Connection, wanted: set[int]) -> dict[int, tuple[SubmissionRecord, ...]]:
    """The records of judgements, in the order of judging."""
    found: dict[int, list[SubmissionRecord]] = {}
    for some in batches(sorted(wanted)):
        rows = (
            select(verdicts.c.judgement, verdicts.c.record)
            .where(verdicts.c.judgement.in_(some))
            .order_by(verdicts.c.judgement, verdicts.c.position)
        )
        for judgement, text in connection.execute(rows):
            record = msgspec.json.decode(text, type=SubmissionRecord, strict=False)
            found.setdefault(judgement, []).append(record)
    return {judgement: tuple(records) for judgement, records in found.items()}


def stored_of(row: Any, records: Sequence[SubmissionRecord]) -> Stored:
    """A submission as it stands, with the verdicts under its student's name."""
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
