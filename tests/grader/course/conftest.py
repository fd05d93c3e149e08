"""Stores on both databases, and a judge that needs no sandbox."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from headcheck.grader import run
from headcheck.grader.course.export import Gradebook
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.course.store.store import Store, open_store
from headcheck.grader.grading import worker_pool
from headcheck.grader.grading.events import Listener, ignore
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.ungraded import record_busy
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import (
    Counterexample,
    DiagnosisRecord,
    NoteRecord,
    PropertyRecord,
    SubmissionRecord,
)
from headcheck.grader.sandbox.isolation import IsolationLevel
from headcheck.grader.seed import Seed, SeedKind
from headcheck.grader.ui.cli import cli
from tests.grader.course.gradebooks import (
    DAY,
    DUE,
    HandIn,
    MakeRecord,
    make_graded_file,
    make_odd_gradebook,
)
from tests.grader.course.postgresql import PostgreSQLMissing, start_postgresql


@pytest.fixture(scope="session")
def record() -> MakeRecord:
    """Makes records with all there can be in one; points say how many of two claims hold."""

    def made(
        student: str = "ada", points: float = 100.0, exercise: str | None = "causal_weights"
    ) -> SubmissionRecord:
        passed, half = points >= 100, points >= 50
        claims = (
            PropertyRecord("it_runs", "It runs.", "contract", "passed", 50.0 * half, 50.0),
            PropertyRecord(
                "it_is_right",
                "It is right.",
                "values",
                "passed" if passed else "failed",
                50.0 * passed,
                50.0,
                "" if passed else 'It is right.\n  expected  1 < 2 & "3"\n  got       \x1b[1m\0',
                None if passed else "batch=1 seed=3",
                None if passed else Counterexample({"batch": 1, "dtype": "float64"}, "print(1)"),
            ),
        )
        return SubmissionRecord(
            file=f"{student}.py",
            student=student,
            exercise=exercise,
            name="causal_weights",
            score=sum(claim.points for claim in claims),
            max_score=100.0,
            status="passed" if passed else "failed",
            seconds=0.25,
            properties=claims,
            notes=(NoteRecord("prints", "it prints", 1, 2),),
            diagnosis=() if passed else (DiagnosisRecord("no_scale", "Not scaled.", 1, 2, 9, 9),),
        )

    return made


@pytest.fixture(scope="session")
def handed(record: MakeRecord) -> HandIn:
    """Makes files that were handed in some days after they were due; None is at no known time."""

    def made(
        who: str, points: float = 100, days: float | None = 0.0, text: str = "", **more: Any
    ) -> GradedFile:
        file = f"{who}/{text or 'a'}.py"
        about = {
            "file": file,
            "submitted": None if days is None else (DUE + days * DAY).isoformat(),
            "content": text or who,
            "records": (replace(record(who, points), file=file),),
        }
        return make_graded_file(who, **{**about, **more})

    return made


@pytest.fixture
def odd_gradebook(record: MakeRecord) -> Gradebook:
    """Right, wrong, decided by a person, unreadable, and known to no roster."""
    return make_odd_gradebook(record)


class FakeGrader:
    """Stands for the sandbox: a file's points are its first number; it is written what it judges.

    A file that says `several` answers two exercises.
    """

    def __init__(self, record: MakeRecord, log: Path) -> None:
        self.record = record
        self.log = log
        self.seeds: set[Seed] = set()
        self.busy: set[str] = set()
        """students whose files the machine is too busy to judge"""

    def grade(
        self,
        server: object,
        found: Sequence[Submission],
        chosen: Settings,
        emit: Listener = ignore,
    ) -> Iterator[tuple[Submission, list[SubmissionRecord]]]:
        self.seeds.add(chosen.seed)
        bonus = -50.0 if chosen.seed.kind is SeedKind.GIVEN else 0.0
        for each in found:
            text = each.path.read_text()
            with self.log.open("a") as log:
                log.write(text.replace("\n", " ") + "\n")
            points = float(text.split()[0]) + bonus
            records = [self.record(each.student, points)]
            if each.student in self.busy:
                records = [record_busy(each, chosen, "somebody else computes")]
            if "several" in text:
                records.append(self.record(each.student, 100.0, "self_attention_v2"))
            yield each, [replace(r, file=each.display_path) for r in records]

    @property
    def graded_texts(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def fake_grader(record: MakeRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGrader:
    """The same, in place of the real one."""
    fake = FakeGrader(record, tmp_path / "judged.log")
    place = SimpleNamespace(isolation_level=IsolationLevel("A", ()))
    monkeypatch.setattr(run, "create_sandbox", lambda **_: contextlib.nullcontext(place))
    monkeypatch.setattr(worker_pool, "grade_all", fake.grade)
    return fake


RunCommand = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_command(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    fake_grader: FakeGrader,
) -> RunCommand:
    """Run a command in a folder of its own; its exit code, its output and its standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code: Any = 0
        try:
            cli([*arguments], standalone_mode=False, obj=lambda _: None)
        except SystemExit as end:
            code = end.code or 0
        return code, *capfd.readouterr()

    return run


# ------------------------------------------------------------------------ databases


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A database of a real PostgreSQL, started for these tests; skipped where there is none."""
    try:
        with start_postgresql() as url:
            yield url
    except PostgreSQLMissing as why:
        pytest.skip(str(why))


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A new store, on each database in turn."""
    with open_store(store_url, create=True) as made:
        yield made


# A database takes hundreds of files, which are also deleted at the end: one is emptied each time.
EMPTY = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid();
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new store goes, on each database in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "course.db")
    url: str = request.getfixturevalue("postgresql_url")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(EMPTY)
    return url
