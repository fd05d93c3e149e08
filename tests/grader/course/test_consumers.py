"""What the consumers' own code makes of our files; `tox run -e formats` installs that code."""

import csv
import io
import json
import os
import sys
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcheck.grader.course.export import ExportError, Gradebook, export
from tests.grader.course.gradebooks import MakeRecord, make_standing, read_table
from tests.grader.course.test_export import mark_by_hand

ODD = 'O"Neil, Conway'


@pytest.fixture(params=["judged", "marked and late"])
def odd_gradebook(record: MakeRecord, request: pytest.FixtureRequest) -> Gradebook:
    """Three results; or the same with marks, a bonus above the maximum, and 5 points taken off."""
    about = {"name": ODD, "submitted": "2026-02-01T10:00:00+00:00"}
    standings = [
        make_standing(who, record(who, points), email=f"{who}@x.org", **about)
        for who, points in (("ada", 100), ("bob", 50), ("eve", 0))
    ]
    book = Gradebook("ps1", tuple(standings))
    return book if request.param == "judged" else make_late(mark_by_hand(book, bonus=2.0))


def make_late(book: Gradebook) -> Gradebook:
    late = {"taken_off": 5.0, "penalty": "5 points late", "late": True, "group": "=blue"}
    results = [
        each if each.student == "ada" else replace(each, score=each.score - 5.0, **late)  # type: ignore[arg-type]
        for each in book.results
    ]
    return replace(book, results=tuple(results))


def list_scores(book: Gradebook) -> dict[str, float]:
    return {each.student: each.score for each in book.results}


def test_gradescope_s_own_runner_writes_the_same_fields(odd_gradebook: Gradebook) -> None:
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
    ours = json.loads(export(odd_gradebook, "gradescope").files["bob.json"])

    def alike(one: dict[str, Any], other: dict[str, Any]) -> None:
        # Theirs writes the time as text, where the specification has a number.
        for key in (one.keys() & other.keys()) - {"execution_time"}:
            numbers = isinstance(one[key], int | float) and isinstance(other[key], int | float)
            assert numbers or type(one[key]) is type(other[key]), key

    assert {"tests", "visibility", "stdout_visibility", "score"} <= theirs.keys() & ours.keys()
    alike(theirs, ours)
    assert ours["score"] == list_scores(odd_gradebook)["bob"]
    for test in theirs["tests"]:
        assert test.keys() <= ours["tests"][0].keys()
        for each in ours["tests"]:
            alike(test, each)
    assert {test["status"] for test in theirs["tests"]} == {"passed", "failed"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Any:
    """nbgrader's API; its dependencies warn about themselves."""
    reason = "nbgrader is not installed: tox run -e formats"
    found = pytest.importorskip("nbgrader.api", reason=reason)
    # It starts the program alembic, which is beside the interpreter.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    return found


@pytest.mark.filterwarnings("ignore")
def test_nbgrader_s_own_export_has_the_same_columns(
    api: Any, odd_gradebook: Gradebook, tmp_path: Path
) -> None:
    from nbgrader import plugins

    theirs_at = tmp_path / "theirs.csv"
    with api.Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        gradebook.add_assignment("ps1")
        for each in odd_gradebook.results:
            names = {"first_name": "Conway", "last_name": "ONeil", "email": each.email}
            gradebook.add_student(each.student, **names)
            gradebook.add_submission("ps1", each.student)
        plugins.CsvExportPlugin(to=str(theirs_at)).export(gradebook)
    theirs = list(csv.reader(io.StringIO(theirs_at.read_text())))
    ours = read_table(export(odd_gradebook, "nbgrader"))
    assert ours[0] == theirs[0]
    assert len(ours) == len(theirs) == 4
    at = {name: i for i, name in enumerate(ours[0])}
    for one, other in zip(ours[1:], sorted(theirs[1:], key=lambda row: row[3]), strict=True):
        assert len(one) == len(other)
        for name in ("assignment", "student_id", "email"):
            assert one[at[name]] == other[at[name]]
        numbers = ("raw_score", "late_submission_penalty", "score", "max_score")
        for row in (one, other):
            raw, penalty, score, most = (float(row[at[name]]) for name in numbers)
            assert most >= 0 and score == max(raw - penalty, 0.0)
        assert float(one[at["score"]]) == list_scores(odd_gradebook)[one[at["student_id"]]]


def gradebook_db(api: Any, path: Path) -> Gradebook:
    """What a course has before: ada handed in and was graded by hand, bob did not; no eve."""
    with api.Gradebook(f"sqlite:///{path}", course_id="cs1") as gradebook:
        gradebook.add_assignment("old", course_id="cs1")
        gradebook.add_assignment("ps1", course_id="cs1")
        gradebook.add_notebook("theirs", "ps1")
        gradebook.add_grade_cell("q1", "theirs", "ps1", max_score=10, cell_type="code")
        for student in ("ada", "bob"):
            gradebook.add_student(student)
        gradebook.add_submission("ps1", "ada")
        gradebook.find_grade("q1", "theirs", "ps1", "ada").manual_score = 7
        gradebook.db.commit()
    return Gradebook("ps1", (), database=path.read_bytes())


@pytest.mark.filterwarnings("ignore")
def test_nbgrader_s_api_reads_what_was_written(
    api: Any, odd_gradebook: Gradebook, tmp_path: Path
) -> None:
    before = gradebook_db(api, tmp_path / "before.db")
    exported = export(replace(before, results=odd_gradebook.results), "nbgrader-db")
    in_a_group = "in a group, but on no roster and in no row of the sheet: eve"
    assert (exported.left_out, exported.remarks) in ((("eve",), ()), ((), (in_a_group,)))
    after = tmp_path / "after.db"
    after.write_bytes(exported.files["gradebook.db"])
    with api.Gradebook(f"sqlite:///{after}", course_id="cs1") as gradebook:
        assert {each.name for each in gradebook.assignments} == {"old", "ps1"}
        scores = {s.student.id: s.score for s in gradebook.assignment_submissions("ps1")}
        own, most = list_scores(odd_gradebook), odd_gradebook.results[0].max_score
        assert scores == {"ada": own["ada"] + 7.0, "bob": own["bob"]}, "7 of them by hand"
        assert gradebook.find_assignment("ps1").max_score == most + 10.0
        submission = gradebook.find_submission("ps1", "bob")
        assert submission.timestamp.isoformat() == "2026-02-01T10:00:00"
        at = ("headcheck", "causal_weights", "ps1", "bob")
        assert not gradebook.find_grade(*at).needs_manual_grade
        said = gradebook.find_comment(*at).comment
        assert "Not scaled." in said and ("5 points late" in said) == odd_gradebook.results[1].late
        # What a person says in nbgrader, later on, goes before what is exported again.
        gradebook.find_grade(*at).manual_score = 60
        gradebook.find_comment(*at).manual_comment = "well tried"
        gradebook.db.commit()
    again = replace(before, results=odd_gradebook.results, database=after.read_bytes())
    after.write_bytes(export(again, "nbgrader-db").files["gradebook.db"])
    with api.Gradebook(f"sqlite:///{after}", course_id="cs1") as gradebook:
        assert gradebook.find_submission("ps1", "bob").score == 60.0
        assert gradebook.find_comment(*at).comment == "well tried"
        assert gradebook.find_grade(*at).auto_score == own["bob"]
        assert len(gradebook.find_submission("ps1", "ada").notebooks) == 2


@pytest.mark.filterwarnings("ignore")
def test_an_assignment_that_is_new_belongs_to_the_course(
    api: Any, odd_gradebook: Gradebook, tmp_path: Path
) -> None:
    before = gradebook_db(api, tmp_path / "before.db")
    wanted = replace(before, results=odd_gradebook.results, column="ps2")
    exported = export(wanted, "nbgrader-db")
    told = "an assignment ps2 was added, since the gradebook had none with this name"
    assert f"{told}; it has old, ps1. --column names another" in exported.remarks
    (tmp_path / "after.db").write_bytes(exported.files["gradebook.db"])
    with api.Gradebook(f"sqlite:///{tmp_path / 'after.db'}", course_id="cs1") as gradebook:
        assert gradebook.find_assignment("ps2").course_id == "cs1"
        assert [course.id for course in gradebook.db.query(api.Course)] == ["cs1"]
        assert gradebook.find_submission("ps2", "ada").score == list_scores(odd_gradebook)["ada"]


@pytest.mark.filterwarnings("ignore")
def test_invalid_gradebook_is_refused(api: Any, odd_gradebook: Gradebook) -> None:
    with pytest.raises(ExportError, match="give it with --into"):
        export(odd_gradebook, "nbgrader-db")
    with pytest.raises(ExportError, match=r"cannot fill in this gradebook\.db: .*Is it one\?"):
        export(replace(odd_gradebook, database=b"no database at all" * 100), "nbgrader-db")
