"""What the consumers' own code makes of our files; `tox run -e formats` installs that code."""

import csv
import io
import json
import os
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.cohort.export import Gradebook, export
from grader.cohort.standing import Standing
from grader.report import SubmissionRecord

Record = Callable[..., SubmissionRecord]
ODD = 'O"Neil, Conway'


@pytest.fixture
def book(record: Record) -> Gradebook:
    standings = []
    for student, points in (("ada", 100), ("bob", 50), ("eve", 0)):
        made = record(student, points)
        standings.append(
            Standing(
                student=student,
                name=ODD,
                email=f"{student}@x.org",
                handle=student,
                exercise="causal_weights",
                score=made.score,
                max_score=100.0,
                judged=made.score,
                status=made.status,
                attempt=1,
                late=False,
                submitted="2026-02-01T10:00:00+00:00",
                record=made,
            )
        )
    return Gradebook("ps1", tuple(standings))


def test_gradescope_s_own_runner_writes_the_same_fields(book: Gradebook) -> None:
    reason = "gradescope-utils is not installed: tox run -e formats"
    utils = "gradescope_utils.autograder_utils"
    runner = pytest.importorskip(f"{utils}.json_test_runner", reason=reason)
    decorators = pytest.importorskip(f"{utils}.decorators", reason=reason)

    class Tests(unittest.TestCase):
        def test_it_runs(self) -> None:
            sys.stdout.write("said")

        def test_it_is_right(self) -> None:
            raise AssertionError("wrong")

    for number, test in enumerate((Tests.test_it_runs, Tests.test_it_is_right), start=1):
        decorators.weight(50)(decorators.number(str(number))(test))
        decorators.tags("contract")(decorators.visibility("visible")(test))
    stream = io.StringIO()
    options = {"visibility": "visible", "stdout_visibility": "hidden", "buffer": True}
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Tests)
    runner.JSONTestRunner(stream=stream, **options).run(suite)
    theirs = json.loads(stream.getvalue())
    ours = json.loads(export(book, "gradescope").files["bob.json"])

    def alike(one: dict[str, Any], other: dict[str, Any]) -> None:
        # Theirs writes the time as text, where the specification has a number.
        for key in (one.keys() & other.keys()) - {"execution_time"}:
            numbers = isinstance(one[key], int | float) and isinstance(other[key], int | float)
            assert numbers or type(one[key]) is type(other[key]), key

    assert {"tests", "visibility", "stdout_visibility", "score"} <= theirs.keys() & ours.keys()
    alike(theirs, ours)
    for test in theirs["tests"]:
        assert test.keys() <= ours["tests"][0].keys()
        alike(test, ours["tests"][0])
    assert {test["status"] for test in theirs["tests"]} == {"passed", "failed"}


@pytest.mark.filterwarnings("ignore")  # of nbgrader's dependencies, which are not ours
def test_nbgrader_s_own_export_has_the_same_columns(
    book: Gradebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "nbgrader is not installed: tox run -e formats"
    api = pytest.importorskip("nbgrader.api", reason=reason)
    plugins = pytest.importorskip("nbgrader.plugins", reason=reason)
    # It starts the program alembic, which is beside the interpreter.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    theirs_at = tmp_path / "theirs.csv"
    with api.Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        gradebook.add_assignment("ps1")
        for each in book.standings:
            names = {"first_name": "Conway", "last_name": "ONeil", "email": each.email}
            gradebook.add_student(each.student, **names)
            gradebook.add_submission("ps1", each.student)
        plugins.CsvExportPlugin(to=str(theirs_at)).export(gradebook)
    theirs = list(csv.reader(io.StringIO(theirs_at.read_text())))
    (data,) = export(book, "nbgrader").files.values()
    ours = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert ours[0] == theirs[0]
    assert len(ours) == len(theirs) == 4
    at = {name: i for i, name in enumerate(ours[0])}
    for one, other in zip(ours[1:], sorted(theirs[1:], key=lambda row: row[3]), strict=True):
        assert len(one) == len(other)
        for name in ("assignment", "student_id", "email"):
            assert one[at[name]] == other[at[name]]
        for name in ("raw_score", "late_submission_penalty", "score", "max_score"):
            assert float(one[at[name]]) >= 0 and float(other[at[name]]) >= 0
