"""Runs, submissions, verdicts, and what instructors decided about them.

A submission is saved in one transaction: its bytes, its judgement and its verdicts. If the process
is killed, the store contains the submissions that were finished, and the same command continues
with the rest.
"""

import difflib
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from secrets import token_hex
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, Table, delete, func, insert, select, update

from headcheck.grader.course.intake.gather import SubmittedFile
from headcheck.grader.course.policy import NO_POLICY, Policy
from headcheck.grader.course.store import database
from headcheck.grader.course.store.database import LOCK_ID, StoreError, begin_write
from headcheck.grader.course.store.manifest import Manifest, ManifestError, decode, encode
from headcheck.grader.course.store.records import (
    Comment,
    FileContent,
    GradedFile,
    Mark,
    Override,
    Run,
    compute_submission_key,
    sanitize_text,
)
from headcheck.grader.course.store.rows import (
    get_timestamp,
    insert_if_absent,
    link_judgements,
    load_records,
    make_graded_file,
    reopen_damaged,
    save_judgement,
    select_judged,
    select_settled,
    split_batches,
)
from headcheck.grader.course.store.schema import (
    comments,
    contents,
    judgements,
    marks,
    overrides,
    runs,
    secrets,
    submissions,
)
from headcheck.grader.report.feedback import Feedback
from headcheck.grader.report.records import SubmissionRecord

T = TypeVar("T")
DECISIONS: Mapping[type, Table] = {Override: overrides, Comment: comments, Mark: marks}
"""the table of each kind of what instructors decide"""


@contextmanager
def open_store(location: str, *, create: bool = False) -> Iterator["Store"]:
    """Open the store in a file or at a URL. Raises StoreError."""
    with database.open_engine(location, create=create) as engine:
        yield Store(engine)


@dataclass(frozen=True, slots=True)
class Store:
    """An open store."""

    engine: Engine

    # ------------------------------------------------------------------------ grading

    def begin(self, name: str, manifest: Manifest) -> Run:
        """Return the newest run of that name if it has these settings, else a new one."""
        with self._lock_run_name(name) as (connection, newest):
            return _find_or_create_run(connection, name, manifest, newest)

    def resume(self, name: str, manifest: Manifest) -> Run:
        """Do the same as `begin`, but with the case seed of the newest run of that name."""
        with self._lock_run_name(name) as (connection, newest):
            same = manifest if newest is None else manifest.continue_from(newest.manifest)
            return _find_or_create_run(connection, name, same, newest)

    @contextmanager
    def _lock_run_name(self, name: str) -> Iterator[tuple[Connection, Run | None]]:
        """Yield the newest run of a name while no other process can begin a run."""
        if not name or "/" in name:
            raise StoreError(f"{name!r}: a run's name has no slash, and is not empty")
        with begin_write(self.engine) as connection:
            # Two processes that begin the same run at once must not create two.
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(LOCK_ID)))
            yield connection, _select_newest_run(connection, name)

    def update_manifest(self, run: Run, manifest: Manifest) -> Run:
        """Replace entries of a run's manifest, such as its sandbox, but not settings."""
        assert manifest.key == run.manifest.key, "use another run for other settings"
        if manifest == run.manifest:
            return run
        with begin_write(self.engine) as connection:
            changed = update(runs).where(runs.c.id == run.id)
            connection.execute(changed.values(manifest=encode(manifest)))
        return replace(run, manifest=manifest)

    def find_policy(self, name: str) -> Policy:
        """Return the policy of the newest run of a name; an empty one if there is no run yet."""
        with self.engine.connect() as connection:
            newest = _select_newest_run(connection, name)
        return NO_POLICY if newest is None else newest.manifest.policy

    def keep_rules(self, run: Run, feedback: Feedback, policy: Policy) -> Run:
        """Keep with a run what may change without any grading."""
        return self.update_manifest(run, replace(run.manifest, feedback=feedback, policy=policy))

    def load_judgement_ids(self, key: str) -> dict[tuple[str, str], int]:
        """Return the ids of all judgements under these settings, by content and kind.

        A judgement without a verdict is left out, so that its file is graded again.
        """
        return self._load_ids(select_settled(key))

    def _load_ids(self, query: Select[Any]) -> dict[tuple[str, str], int]:
        with self.engine.connect() as connection:
            rows = connection.execute(query)
            return {(content, kind): id_ for content, kind, id_ in rows}

    def reopen_damaged(self, key: str) -> int:
        """Let files be graded again whose verdicts cannot be read; return how many there are."""
        ids = set(self.load_judgement_ids(key).values())
        with begin_write(self.engine) as connection:
            return reopen_damaged(connection, ids)

    def save_judgement(
        self,
        run: Run | None,
        key: str,
        content: FileContent,
        submitted_files: Sequence[SubmittedFile],
        records: Sequence[SubmissionRecord],
    ) -> None:
        """Save the result of grading these bytes and, in a run, link it to these files.

        Either everything is saved or nothing. If there is no run, no student's grade changes.
        """
        with begin_write(self.engine) as connection:
            judgement = save_judgement(connection, key, content, records)
            if run is not None:
                link_judgements(connection, run, [(each, judgement) for each in submitted_files])

    def copy_judgements(
        self,
        from_key: str,
        key: str,
        wanted: Collection[tuple[str, str]],
        convert: Callable[[SubmissionRecord], SubmissionRecord],
    ) -> None:
        """Save the judgements of these contents under other settings, each record converted.

        Contents that have no judgement under the first settings, or already have one under the
        others, are left unchanged.
        """
        found, there = self.load_judgement_ids(from_key), self.load_judgement_ids(key)
        todo = [each for each in found if each in wanted and each not in there]
        if not todo:
            return
        with begin_write(self.engine) as connection:
            for batch in split_batches(todo):
                records = load_records(connection, {found[each] for each in batch})
                for digest, kind in batch:
                    converted = [convert(each) for each in records.get(found[digest, kind], ())]
                    content = FileContent(digest, kind, None)  # the bytes are here already
                    save_judgement(connection, key, content, converted)

    def link_judgements(self, run: Run, linked: Iterable[tuple[SubmittedFile, int]]) -> None:
        """Link files of a run to judgements that exist already."""
        with begin_write(self.engine) as connection:
            link_judgements(connection, run, list(linked))

    def link_judged(self, run: Run, files: Iterable[tuple[tuple[str, str], SubmittedFile]]) -> None:
        """Link files, given with their contents, to what other commands have judged meanwhile."""
        ids = self._load_ids(select_judged(run.manifest.key))
        self.link_judgements(run, [(file, ids[key]) for key, file in files if key in ids])

    def remove_superseded(self, run: Run, submitted_files: Iterable[SubmittedFile]) -> None:
        """Remove these students' other files from the run: earlier attempts, withdrawn files."""
        keys = {compute_submission_key(each) for each in submitted_files}
        students = {sanitize_text(each.student.id) for each in submitted_files}
        columns = select(submissions.c.id, submissions.c.place, submissions.c.student)
        with begin_write(self.engine) as connection:
            rows = connection.execute(columns.where(submissions.c.run == run.id)).all()
            superseded = [r.id for r in rows if r.student in students and r.place not in keys]
            for batch in split_batches(superseded):
                connection.execute(delete(submissions).where(submissions.c.id.in_(batch)))

    # ------------------------------------------------------------------------ reading

    def list_runs(self) -> list[Run]:
        """Return all runs whose settings can be read, the oldest first."""
        return [each for each in map(_parse_run, self._load_runs()) if each is not None]

    def list_damaged_runs(self) -> list[str]:
        """Return the names whose newest run has settings that cannot be read."""
        newest = {row.name: _parse_run(row) for row in self._load_runs()}
        return [name for name, run in newest.items() if run is None]

    def _load_runs(self) -> Sequence[Any]:
        with self.engine.connect() as connection:
            return connection.execute(select(runs).order_by(runs.c.id)).all()

    def load_newest_run(self, name: str) -> Run:
        """Return the newest run of a name. Raises StoreError."""
        with self.engine.connect() as connection:
            newest = _select_newest_run(connection, name)
        if newest is None and name in self.list_damaged_runs():
            text = "the settings of this run are damaged; grade the class into it again"
            raise StoreError(f"{name}: {text}")
        if newest is None:
            names = ", ".join(dict.fromkeys(run.name for run in self.list_runs()))
            raise StoreError(f"there is no run {name!r}; there are: {names or 'none yet'}")
        return newest

    def load_graded_files(self, name: str) -> list[GradedFile]:
        """Return the current files under a run's name: each student's files in their newest run.

        They are sorted by student, attempt and file.
        """
        last = (
            select(submissions.c.student, func.max(submissions.c.run).label("run"))
            .join(runs, runs.c.id == submissions.c.run)
            .where(runs.c.name == name)
            .group_by(submissions.c.student)
            .subquery()
        )
        same = (last.c.student == submissions.c.student) & (last.c.run == submissions.c.run)
        query = (
            select(submissions, judgements.c.content, judgements.c.kind, judgements.c.judged)
            .join(judgements, judgements.c.id == submissions.c.judgement)
            .join(last, same)
        )
        with self.engine.connect() as connection:
            rows = connection.execute(query).all()
            records = load_records(connection, {row.judgement for row in rows})
        # Sorted here: databases sort text by rules of their own.
        return sorted(
            (make_graded_file(row, records.get(row.judgement, ())) for row in rows),
            key=lambda each: (each.student, each.attempt, each.file),
        )

    def load_student_files(self, name: str, student: str) -> list[GradedFile]:
        """Return one student's current files. Raises StoreError if there are none."""
        self.load_newest_run(name)
        current = self.load_graded_files(name)
        own = [each for each in current if each.student == sanitize_text(student)]
        if not own:
            close = difflib.get_close_matches(student, {each.student for each in current}, n=3)
            hint = f"; did you mean {', '.join(sorted(close))}?" if close else ""
            raise StoreError(f"{name}/{student}: nobody with this id has handed in anything{hint}")
        return own

    def load_verdicts(self, key: str) -> dict[tuple[str, str], tuple[SubmissionRecord, ...]]:
        """Return the verdicts under these settings, by content and kind, without a student."""
        ids = self.load_judgement_ids(key)
        with self.engine.connect() as connection:
            records = load_records(connection, set(ids.values()))
        return {content_key: records.get(id_, ()) for content_key, id_ in ids.items()}

    def load_content(self, digest: str) -> bytes | None:
        """Return the bytes of a graded file; None for one that could not be read.

        Raises StoreError if they are damaged.
        """
        with self.engine.connect() as connection:
            query = select(contents.c.compressed).where(contents.c.digest == digest)
            compressed = connection.execute(query).scalar()
        try:
            return None if compressed is None else zlib.decompress(compressed)
        except (zlib.error, TypeError):
            text = "the bytes of a file in the store are damaged; grade the class into a new store"
            raise StoreError(f"{digest[:12]}: {text}") from None

    # ------------------------------------------------------------------------ deciding

    def add_decisions(self, decisions: Sequence[Override | Comment | Mark]) -> None:
        """Add decisions of one kind, all or none; they stay whatever is graded later."""
        rows = [{**asdict(each), "created": get_timestamp()} for each in decisions]
        if rows:
            with begin_write(self.engine) as connection:
                connection.execute(insert(DECISIONS[type(decisions[0])]), rows)

    def load_marks(self, name: str) -> list[Mark]:
        """Return all marks under a run's name, the oldest first."""
        return self._select_decisions(Mark, name)

    def get_secret(self, name: str) -> str:
        """Return the secret that belongs to a run's name; made when it is first asked for."""
        with begin_write(self.engine) as connection:
            insert_if_absent(connection, secrets, {"run": name, "secret": token_hex(32)})
            query = select(secrets.c.secret).where(secrets.c.run == name)
            return str(connection.execute(query).scalar_one())

    def load_overrides(self, name: str) -> dict[tuple[str, str], Override]:
        """Return the decisions in force under a run's name, by student and exercise."""
        decisions = self._select_decisions(Override, name)
        newest = {(each.student, each.exercise): each for each in decisions}
        return {key: each for key, each in newest.items() if each.score is not None}

    def load_comments(self, name: str) -> list[Comment]:
        """Return the comments under a run's name, the oldest first."""
        return self._select_decisions(Comment, name)

    def _select_decisions(self, record: type[T], name: str) -> list[T]:
        table = DECISIONS[record]
        kept = (column for column in table.c if column.name != "id")
        query = select(*kept).where(table.c.run == name).order_by(table.c.id)
        with self.engine.connect() as connection:
            return [record(**row) for row in connection.execute(query).mappings()]


def _find_or_create_run(
    connection: Connection, name: str, manifest: Manifest, newest: Run | None
) -> Run:
    if newest is not None and newest.manifest.key == manifest.key:
        return newest
    key, now = manifest.key, get_timestamp()
    row = {"name": name, "key": key, "created": now, "manifest": encode(manifest)}
    id_ = connection.execute(insert(runs).values(row).returning(runs.c.id)).scalar_one()
    return Run(id_, name, now, manifest, key)


def _select_newest_run(connection: Connection, name: str) -> Run | None:
    """Return the newest run of a name; None if there is none, or its settings cannot be read."""
    query = select(runs).where(runs.c.name == name).order_by(runs.c.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else _parse_run(row)


def _parse_run(row: Any) -> Run | None:
    try:
        return Run(row.id, row.name, row.created, decode(row.manifest), row.key)
    except ManifestError:
        return None
