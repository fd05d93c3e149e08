"""Convert records to rows and back, with the statements that make up one transaction."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Select, Table, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from headcheck.grader.course.intake.gather import SubmittedFile
from headcheck.grader.course.store.records import (
    FileContent,
    GradedFile,
    Run,
    compute_submission_key,
)
from headcheck.grader.course.store.schema import contents, judgements, submissions, verdicts
from headcheck.grader.report.records import DAMAGED_KIND, NOT_JUDGED, ErrorRecord, SubmissionRecord

T = TypeVar("T")
DAMAGED = "not judged: the verdict in the store is damaged; grade the files again"


def get_timestamp() -> str:
    """Return the time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _build_insert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that can say what to do on conflict, for which SQL has no standard form."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def insert_if_absent(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row unless it exists; return whether it was inserted."""
    return insert_absent(connection, table, [row]) == 1


def insert_absent(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows that do not exist; return how many were inserted."""
    added = _build_insert(connection, table).values(rows).on_conflict_do_nothing()
    return len(connection.execute(added.returning(*table.primary_key)).all())


def select_judged(key: str) -> Select[Any]:
    """Return the query for all judgements under these settings: content, kind and id."""
    columns = select(judgements.c.content, judgements.c.kind, judgements.c.id)
    return columns.where(judgements.c.key == key)


def select_settled(key: str) -> Select[Any]:
    """Return the query for those of them that have a verdict."""
    unsettled = select(verdicts.c.judgement).where(verdicts.c.status == NOT_JUDGED)
    return select_judged(key).where(judgements.c.id.not_in(unsettled))


def save_judgement(
    connection: Connection, key: str, content: FileContent, records: Sequence[SubmissionRecord]
) -> int:
    """Return the id of the judgement of these bytes; save it unless another process already has.

    Saved records without a verdict are replaced.
    """
    if content.data is not None:
        compressed = zlib.compress(content.data)
        row = {"digest": content.digest, "size": len(content.data), "compressed": compressed}
        insert_if_absent(connection, contents, row)
    identity = {"content": content.digest, "kind": content.kind, "key": key}
    added = insert_if_absent(connection, judgements, {**identity, "judged": get_timestamp()})
    query = select(judgements.c.id).filter_by(**identity)
    id_ = int(connection.execute(query).scalar_one())
    rows = [_make_verdict_row(id_, i, record) for i, record in enumerate(records)]
    if rows and (added or _remove_unsettled(connection, id_)):
        connection.execute(insert(verdicts), rows)
    return id_


def _remove_unsettled(connection: Connection, judgement: int) -> bool:
    """If no record of a judgement has a verdict, remove them; return whether they were removed."""
    own = verdicts.c.judgement == judgement
    without = select(verdicts.c.judgement).where(own, verdicts.c.status == NOT_JUDGED)
    if connection.execute(without).first() is None:
        return False
    connection.execute(delete(verdicts).where(own))
    return True


def _make_verdict_row(judgement: int, position: int, record: SubmissionRecord) -> dict[str, Any]:
    copied = ("exercise", "name", "status", "score", "max_score", "seconds")
    anonymous = replace(record, file="", student="")
    return {
        "judgement": judgement,
        "position": position,
        **{name: getattr(record, name) for name in copied},
        "diagnosis": record.diagnosis[0].name if record.diagnosis else None,
        "record": msgspec.json.encode(anonymous).decode(),
    }


def link_judgements(
    connection: Connection, run: Run, linked: Sequence[tuple[SubmittedFile, int]]
) -> None:
    """Link files to their judgements, replacing earlier links."""
    rows: dict[str, dict[str, Any]] = {}
    for submitted_file, judgement in linked:  # an upsert must not meet the same row twice
        row = _make_submission_row(run, submitted_file, judgement)
        rows.setdefault(row["place"], row)
    for batch in split_batches(list(rows.values())):
        added = _build_insert(connection, submissions).values(batch)
        updated = ("name", "email", "handle", "late", "submitted", "judgement")
        connection.execute(
            added.on_conflict_do_update(
                index_elements=["run", "place"],
                set_={name: added.excluded[name] for name in updated},
            )
        )


def _make_submission_row(run: Run, submitted_file: SubmittedFile, judgement: int) -> dict[str, Any]:
    time = submitted_file.submitted
    return {
        "run": run.id,
        "student": submitted_file.student.id,
        "name": submitted_file.student.display_name,
        "email": submitted_file.student.email,
        "handle": submitted_file.handle,
        "file": submitted_file.file,
        "place": compute_submission_key(submitted_file),
        "attempt": submitted_file.attempt,
        "late": submitted_file.late,
        "submitted": None if time is None else time.astimezone(UTC).isoformat(timespec="seconds"),
        "judgement": judgement,
    }


def split_batches(rows: Sequence[T], size: int = 500) -> Iterator[list[T]]:
    """Split rows into batches: the number of values in a statement is limited."""
    return (list(rows[i : i + size]) for i in range(0, len(rows), size))


def load_records(
    connection: Connection, judgement_ids: set[int]
) -> dict[int, tuple[SubmissionRecord, ...]]:
    """Return the records of judgements, in the order of grading."""
    loaded: dict[int, list[SubmissionRecord]] = {}
    for batch in split_batches(sorted(judgement_ids)):
        rows = select(verdicts).where(verdicts.c.judgement.in_(batch))
        for row in connection.execute(rows.order_by(verdicts.c.judgement, verdicts.c.position)):
            loaded.setdefault(row.judgement, []).append(_read_record(row))
    return {judgement: tuple(records) for judgement, records in loaded.items()}


def _read_record(row: Any) -> SubmissionRecord:
    """Return the record in a row; if it cannot be read, one that says so and has no verdict."""
    try:
        return msgspec.json.decode(row.record, type=SubmissionRecord, strict=False)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        about = ("", "", row.exercise, row.name, 0.0, row.max_score, NOT_JUDGED, 0.0)
        return SubmissionRecord(*about, error=ErrorRecord(DAMAGED_KIND, DAMAGED))


def reopen_damaged(connection: Connection, judgement_ids: set[int]) -> int:
    """Mark judgements whose records cannot be read as unsettled; return how many there are."""
    loaded = load_records(connection, judgement_ids)
    damaged = [
        id_
        for id_, records in loaded.items()
        if any(each.error is not None and each.error.kind == DAMAGED_KIND for each in records)
    ]
    for batch in split_batches(damaged):
        changed = update(verdicts).where(verdicts.c.judgement.in_(batch))
        connection.execute(changed.values(status=NOT_JUDGED))
    return len(damaged)


def make_graded_file(row: Any, records: Sequence[SubmissionRecord]) -> GradedFile:
    """Return a submission with its verdicts, to which its student and file name are added again."""
    columns = {f.name: getattr(row, f.name) for f in fields(GradedFile) if f.name != "records"}
    owned = tuple(replace(each, file=row.file, student=row.student) for each in records)
    return GradedFile(**columns, records=owned)
