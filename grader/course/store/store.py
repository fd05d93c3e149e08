"""What was judged, kept: runs, submissions, verdicts, and what people decided about them.

A submission is finished in one transaction, with its bytes, its judgement and its verdicts.
Whatever kills the process, what was finished is there and the rest is not: the same command goes on
with the rest.
"""

import difflib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, Table, delete, func, insert, select, update

from grader.course.intake.gather import SubmittedFile
from grader.course.store import database, manifest
from grader.course.store.database import LOCK_ID, StoreError, begin_write
from grader.course.store.manifest import Manifest
from grader.course.store.records import (
    Comment,
    FileContent,
    GradedFile,
    Override,
    Run,
    compute_submission_key,
    sanitize_text,
)
from grader.course.store.rows import (
    get_timestamp,
    link_judgements,
    load_records,
    make_graded_file,
    save_judgement,
    split_batches,
)
from grader.course.store.schema import comments, contents, judgements, overrides, runs, submissions
from grader.report.records import SubmissionRecord


@contextmanager
def open_store(place: str, *, create: bool = False) -> Iterator["Store"]:
    """The store in a file or at a URL. Raises NoStore."""
    with database.open_engine(place, create=create) as engine:
        yield Store(engine)


@dataclass(frozen=True, slots=True)
class Store:
    """A store that is open."""

    engine: Engine

    # ------------------------------------------------------------------------ judging

    def begin(self, name: str, wanted: Manifest) -> Run:
        """The newest run of that name if it has these settings, else a new one."""
        with self._lock_run_name(name) as (connection, newest):
            return _find_or_create_run(connection, name, wanted, newest)

    def resume(self, name: str, wanted: Manifest) -> Run:
        """The same, but with the seed that the newest run of that name has."""
        with self._lock_run_name(name) as (connection, newest):
            same = wanted if newest is None else wanted.continue_from(newest.manifest)
            return _find_or_create_run(connection, name, same, newest)

    @contextmanager
    def _lock_run_name(self, name: str) -> Iterator[tuple[Connection, Run | None]]:
        """The newest run of a name, while nobody else can begin one."""
        if not name or "/" in name:
            raise StoreError(f"{name!r}: a run's name has no slash, and is not empty")
        with self._write() as connection:
            # Two processes that begin the same run at once must not make two of it.
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(LOCK_ID)))
            yield connection, _select_newest_run(connection, name)

    def update_manifest(self, run: Run, new_manifest: Manifest) -> Run:
        """Replace what a run's manifest says beside its settings, such as its sandbox."""
        assert new_manifest.key == run.manifest.key, "other settings are another run"
        with self._write() as connection:
            changed = update(runs).where(runs.c.id == run.id)
            connection.execute(changed.values(manifest=manifest.encode(new_manifest)))
        return replace(run, manifest=new_manifest)

    def load_judgement_ids(self, key: str) -> dict[tuple[str, str], int]:
        """The judgements under these settings, by content and kind."""
        columns = select(judgements.c.content, judgements.c.kind, judgements.c.id)
        with self.engine.connect() as connection:
            rows = connection.execute(columns.where(judgements.c.key == key))
            return {(content, kind): id_ for content, kind, id_ in rows}

    def save_judgement(
        self,
        run: Run | None,
        key: str,
        content: FileContent,
        submitted_files: Sequence[SubmittedFile],
        records: Sequence[SubmissionRecord],
    ) -> None:
        """Keep what judging these bytes gave, and in a run that these students handed them in.

        All of it is kept or nothing. Without a run nobody's grade changes.
        """
        with self._write() as connection:
            judgement = save_judgement(connection, key, content, records)
            if run is not None:
                link_judgements(connection, run, [(each, judgement) for each in submitted_files])

    def link_judgements(self, run: Run, known: Iterable[tuple[SubmittedFile, int]]) -> None:
        """Say who handed in what was judged before."""
        with self._write() as connection:
            link_judgements(connection, run, list(known))

    def remove_superseded(self, run: Run, submitted_files: Iterable[SubmittedFile]) -> None:
        """Forget what else the run has of these students: earlier attempts, files taken back."""
        places = {compute_submission_key(each) for each in submitted_files}
        students = {sanitize_text(each.student.id) for each in submitted_files}
        there = select(submissions.c.id, submissions.c.place, submissions.c.student)
        with self._write() as connection:
            rows = connection.execute(there.where(submissions.c.run == run.id)).all()
            gone = [r.id for r in rows if r.student in students and r.place not in places]
            for some in split_batches(gone):
                connection.execute(delete(submissions).where(submissions.c.id.in_(some)))

    # ------------------------------------------------------------------------ reading

    def list_runs(self) -> list[Run]:
        """All runs, the oldest first."""
        with self.engine.connect() as connection:
            return [_parse_run(row) for row in connection.execute(select(runs).order_by(runs.c.id))]

    def load_newest_run(self, name: str) -> Run:
        """The newest run of a name. Raises NoStore."""
        with self.engine.connect() as connection:
            found = _select_newest_run(connection, name)
        if found is None:
            names = ", ".join(dict.fromkeys(run.name for run in self.list_runs()))
            raise StoreError(f"there is no run {name!r}; there are: {names or 'none yet'}")
        return found

    def load_graded_files(self, name: str) -> list[GradedFile]:
        """What stands under a run's name: everybody's files in the newest run that has them.

        By student, attempt and file.
        """
        last = (
            select(submissions.c.student, func.max(submissions.c.run).label("run"))
            .join(runs, runs.c.id == submissions.c.run)
            .where(runs.c.name == sanitize_text(name))
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
            records = load_records(connection, {row.judgement for row in found})
        # Sorted here: databases sort text by rules of their own.
        return sorted(
            (make_graded_file(row, records.get(row.judgement, ())) for row in found),
            key=lambda each: (each.student, each.attempt, each.file),
        )

    def load_student_files(self, name: str, student: str) -> list[GradedFile]:
        """What stands for one student. Raises NoStore for somebody who handed in nothing."""
        self.load_newest_run(name)
        standing = self.load_graded_files(name)
        theirs = [each for each in standing if each.student == sanitize_text(student)]
        if not theirs:
            close = difflib.get_close_matches(student, {each.student for each in standing}, n=3)
            hint = f"; did you mean {', '.join(sorted(close))}?" if close else ""
            raise StoreError(f"{name}/{student}: nobody of that id has handed in anything{hint}")
        return theirs

    def load_verdicts(self, key: str) -> dict[tuple[str, str], tuple[SubmissionRecord, ...]]:
        """The verdicts under these settings, by content and kind; they are nobody's yet."""
        known = self.load_judgement_ids(key)
        with self.engine.connect() as connection:
            records = load_records(connection, set(known.values()))
        return {which: records.get(judgement, ()) for which, judgement in known.items()}

    def load_content(self, digest: str) -> bytes | None:
        """Bytes that were judged. None for what could not be had."""
        with self.engine.connect() as connection:
            wanted = select(contents.c.compressed).where(contents.c.digest == digest)
            found = connection.execute(wanted).scalar()
        return None if found is None else zlib.decompress(found)

    # ------------------------------------------------------------------------ deciding

    def add_override(self, decided: Override) -> None:
        """Add a decision; it holds from now on, whatever is judged later."""
        self._insert_decision(overrides, msgspec.to_builtins(decided))

    def add_comment(self, written: Comment) -> None:
        """Add a comment."""
        self._insert_decision(comments, msgspec.to_builtins(written))

    def load_overrides(self, name: str) -> dict[tuple[str, str], Override]:
        """The decisions that hold under a run's name, by student and exercise."""
        newest = {
            (each.student, each.exercise): each for each in self._select_decisions(overrides, name)
        }
        return {key: Override(*each[1:]) for key, each in newest.items() if each.score is not None}

    def load_comments(self, name: str) -> list[Comment]:
        """The comments under a run's name, the oldest first."""
        return [Comment(*each[1:]) for each in self._select_decisions(comments, name)]

    def _insert_decision(self, table: Table, row: Mapping[str, Any]) -> None:
        cleaned = {k: sanitize_text(v) if isinstance(v, str) else v for k, v in row.items()}
        with self._write() as connection:
            connection.execute(insert(table).values({**cleaned, "created": get_timestamp()}))

    def _select_decisions(self, table: Table, name: str) -> Sequence[Any]:
        wanted = select(table).where(table.c.run == sanitize_text(name)).order_by(table.c.id)
        with self.engine.connect() as connection:
            return connection.execute(wanted).all()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with begin_write(self.engine) as connection:
            yield connection


def _find_or_create_run(
    connection: Connection, name: str, wanted: Manifest, newest: Run | None
) -> Run:
    """The newest run if it is what is wanted, else a new one."""
    if newest is not None and newest.manifest.key == wanted.key:
        return newest
    row = {
        "name": sanitize_text(name),
        "key": wanted.key,
        "created": get_timestamp(),
        "manifest": manifest.encode(wanted),
    }
    made = connection.execute(insert(runs).values(row).returning(runs.c.id)).scalar_one()
    return Run(made, name, row["created"], wanted)


def _select_newest_run(connection: Connection, name: str) -> Run | None:
    wanted = (
        select(runs).where(runs.c.name == sanitize_text(name)).order_by(runs.c.id.desc()).limit(1)
    )
    row = connection.execute(wanted).one_or_none()
    return None if row is None else _parse_run(row)


def _parse_run(row: Any) -> Run:
    return Run(row.id, row.name, row.created, manifest.decode(row.manifest))
