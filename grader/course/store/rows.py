"""Records to rows of a store and back: what one transaction writes, piece by piece."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Table, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from grader.course.intake.gather import SubmittedFile
from grader.course.store.records import (
    FileContent,
    GradedFile,
    Run,
    compute_submission_key,
    sanitize_text,
)
from grader.course.store.schema import contents, judgements, submissions, verdicts
from grader.report.records import SubmissionRecord

T = TypeVar("T")


def get_timestamp() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _insert_if_absent(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row; whether it was not there."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    added = dialect.insert(table).values(row).on_conflict_do_nothing()
    return connection.execute(added.returning(*table.primary_key)).first() is not None


def save_judgement(
    connection: Connection, key: str, content: FileContent, records: Sequence[SubmissionRecord]
) -> int:
    """The judgement of these bytes under these settings: made now, or by another process before."""
    if content.data is not None:
        compressed = zlib.compress(content.data)
        row = {"digest": content.digest, "size": len(content.data), "compressed": compressed}
        _insert_if_absent(connection, contents, row)
    which = {"content": content.digest, "kind": content.kind, "key": key}
    added = _insert_if_absent(connection, judgements, {**which, "judged": get_timestamp()})
    wanted = select(judgements.c.id).filter_by(**which)
    id_ = int(connection.execute(wanted).scalar_one())
    rows = [_make_verdict_row(id_, i, record) for i, record in enumerate(records)]
    if added and rows:
        connection.execute(insert(verdicts), rows)
    return id_


def _make_verdict_row(judgement: int, position: int, record: SubmissionRecord) -> dict[str, Any]:
    nobody = replace(record, file="", student="")
    return {
        "judgement": judgement,
        "position": position,
        "exercise": record.exercise,
        "name": None if record.name is None else sanitize_text(record.name),
        "status": record.status,
        "score": record.score,
        "max_score": record.max_score,
        "seconds": record.seconds,
        "diagnosis": record.diagnosis[0].name if record.diagnosis else None,
        "record": sanitize_text(msgspec.json.encode(nobody).decode()),
    }


def link_judgements(
    connection: Connection, run: Run, linked: Sequence[tuple[SubmittedFile, int]]
) -> None:
    """Say that these files have these judgements, whatever they had before."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    rows: dict[str, dict[str, Any]] = {}
    for submitted_file, judgement in linked:  # one statement must not meet a row twice
        rows.setdefault(
            compute_submission_key(submitted_file),
            _make_submission_row(run, submitted_file, judgement),
        )
    for some in split_batches(list(rows.values())):
        added = dialect.insert(submissions).values(some)
        changed = {
            name: added.excluded[name]
            for name in ("name", "email", "handle", "late", "submitted", "judgement")
        }
        connection.execute(
            added.on_conflict_do_update(index_elements=["run", "place"], set_=changed)
        )


def _make_submission_row(run: Run, submitted_file: SubmittedFile, judgement: int) -> dict[str, Any]:
    when = submitted_file.submitted
    return {
        "run": run.id,
        "student": sanitize_text(submitted_file.student.id),
        "name": sanitize_text(submitted_file.student.display_name),
        "email": sanitize_text(submitted_file.student.email),
        "handle": sanitize_text(submitted_file.handle),
        "file": sanitize_text(submitted_file.file),
        "place": compute_submission_key(submitted_file),
        "attempt": submitted_file.attempt,
        "late": submitted_file.late,
        "submitted": None if when is None else when.astimezone(UTC).isoformat(timespec="seconds"),
        "judgement": judgement,
    }


def split_batches(rows: Sequence[T], size: int = 500) -> Iterator[list[T]]:
    """A statement has a limit of values."""
    return (list(rows[i : i + size]) for i in range(0, len(rows), size))


def load_records(
    connection: Connection, wanted: set[int]
) -> dict[int, tuple[SubmissionRecord, ...]]:
    """The records of judgements, in the order of judging."""
    found: dict[int, list[SubmissionRecord]] = {}
    for some in split_batches(sorted(wanted)):
        rows = (
            select(verdicts.c.judgement, verdicts.c.record)
            .where(verdicts.c.judgement.in_(some))
            .order_by(verdicts.c.judgement, verdicts.c.position)
        )
        for judgement, text in connection.execute(rows):
            record = msgspec.json.decode(text, type=SubmissionRecord, strict=False)
            found.setdefault(judgement, []).append(record)
    return {judgement: tuple(records) for judgement, records in found.items()}


def make_graded_file(row: Any, records: Sequence[SubmissionRecord]) -> GradedFile:
    """A submission as it stands, with the verdicts under its student's name."""
    return GradedFile(
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
