"""The commands about a course, from the command line to the exit code; with a real sandbox."""

import base64
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader import run
from headcheck.grader.course import grading
from headcheck.grader.course.store.store import open_store
from headcheck.properties.terms.depth import Depth
from tests.commands import RIGHT, WRONG, Command
from tests.grader.course.gradebooks import read_rows, refuse_to_judge
from tests.interpreter import run_python

SLUG = "simplified_attention"


@pytest.fixture
def course(headcheck: Command) -> Command:
    """The same, with a download of a course, and its roster."""
    with zipfile.ZipFile("canvas.zip", "w") as archive:
        archive.writestr("lovelaceada_17_1_hw.py", RIGHT)
        archive.writestr("turingalan_LATE_18_2_hw.py", WRONG)
        archive.writestr("../evil_19_3_hw.py", RIGHT)
        archive.writestr("README.py", "")
    Path("roster.csv").write_text('Student,ID,SIS User ID\n"Lovelace, Ada",17,s1\n')
    return headcheck


GRADE = ("grade", "canvas.zip", "--store", "c.db", "--exercise", SLUG, "--layout", "canvas")


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the course, once a test has graded it: the others take what it left."""
    return tmp_path_factory.mktemp("graded")


@pytest.fixture
def kept(course: Command, graded: Path) -> Command:
    """The same, graded."""
    if not any(graded.iterdir()):
        assert course(*GRADE, "--roster", "roster.csv").code == 1
        shutil.copytree(".", graded, dirs_exist_ok=True)
    shutil.copytree(graded, ".", dirs_exist_ok=True)
    return course


WHO = f"{SLUG}/18"
ADVICE = "in the folder of headcheck's sources, pip install"


def test_download_is_graded_once_and_unattributed_files_are_reported(course: Command) -> None:
    ran = course(*GRADE, "--roster", "roster.csv", "--format", "json")
    assert ran.code == 1
    assert ran.err.splitlines() == [
        "headcheck: not on the roster: 18, 19",
        "headcheck: nobody's, by their names: README.py",
        "1/2 turingalan_LATE_18_2_hw.py: failed",
        "2/2 lovelaceada_17_1_hw.py: passed",
    ]
    told = {s["student"]: s for s in json.loads(ran.out)["submissions"]}
    status = {student: s["status"] for student, s in told.items()}
    assert status == {"18": "failed", "19": "not_tried", "s1": "passed"}
    assert "points outside the archive" in told["19"]["error"]["message"]
    again = course(*GRADE, "--roster", "roster.csv", "--format", "json")
    assert again.out == ran.out, "nothing is judged again, so even the seconds are the same"
    assert f"{SLUG}  {SLUG}" in course("runs", "--store", "c.db").out


def test_files_naming_another_student_are_reported_and_ignored(headcheck: Command) -> None:
    with zipfile.ZipFile("canvas.zip", "w") as archive:
        archive.writestr("lovelaceada_17_1_hw.py", RIGHT)
        archive.writestr("passwdeve_20_2_lovelaceada_17_1_hw-1.py", WRONG)
    ran = headcheck(*GRADE[:-2], "--format", "json")
    told = "passwdeve_20_2_lovelaceada_17_1_hw-1.py is 20's, whatever it says"
    assert ran.err.splitlines() == [
        f"headcheck: in doubt: {told}",
        "1/2 lovelaceada_17_1_hw.py: passed",
        "2/2 passwdeve_20_2_lovelaceada_17_1_hw-1.py: failed",
    ]
    status = {s["student"]: s["status"] for s in json.loads(ran.out)["submissions"]}
    assert status == {"17": "passed", "20": "failed"}


def test_ambiguous_download_asks_for_the_system(headcheck: Command) -> None:
    with zipfile.ZipFile("canvas.zip", "w") as archive:
        archive.writestr("lovelaceada_17_1_hw.py", RIGHT)
        archive.writestr("eve\x1b[2J.py", WRONG)
    ran = headcheck(*GRADE[:-2])
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "headcheck: canvas.zip: lovelaceada_17_1_hw.py is as Canvas names it, but eve\\x1b[2J.py "
        "is not. Take it out, or name the system of this download with --layout\n"
    )


def test_decision_survives_a_previewed_regrade(kept: Command) -> None:
    ran = kept("override", WHO, "70", "--store", "c.db", "--reason", "oral exam")
    assert (ran.code, ran.out) == (0, f"{WHO} {SLUG}: 32.83 before, 70 now\n")
    assert kept("comment", WHO, "a late night?", "--store", "c.db").code == 0

    Path("course.toml").write_text(f"[points.{SLUG}]\ncontract = 25\n")
    changed = ("regrade", SLUG, "--store", "c.db", "--course", "course.toml")
    shown = kept(*changed, "--diff")
    assert shown.code == 0, "a verdict that does not count gains nothing"
    assert shown.out.splitlines() == [
        f"{SLUG}: 82 points before, 102 now; we compare each score's share of these",
        "0 would gain, 0 would lose, 3 stay",
    ]
    line = "set by a person, keeps its share of the maximum: 18 70 of 82, now 87.07 of 102"
    assert shown.err == f"headcheck: {line}\n"
    assert kept(*changed, "--diff").out == shown.out, "nothing was changed"
    assert "0 gain, 0 lose, 3 stay" in kept(*changed).out
    assert kept(*changed).code == 0
    ran = kept("override", WHO, "--clear", "--store", "c.db")
    assert "87.07 before, 52.83 now" in ran.out


def test_a_course_file_decides_how_much_is_asked_only_if_it_says_so(kept: Command) -> None:
    def count_asked() -> set[int]:
        with open_store("c.db") as store:
            graded = [r for file in store.load_graded_files(SLUG) for r in file.records]
        return {len(record.properties) for record in graded if record.properties}

    usual, thorough = (len(BY_SLUG[SLUG].at(depth).properties) for depth in Depth)
    assert usual < thorough
    assert count_asked() == {usual}
    for text in ("thorough = true", "round = 0.5"):
        Path("course.toml").write_text(text)
        kept("regrade", SLUG, "--store", "c.db", "--course", "course.toml")
        assert count_asked() == {thorough}


def test_a_course_is_exported_as_a_table_as_files_and_into_a_sheet(kept: Command) -> None:
    exported = kept("export", SLUG, "--store", "c.db", "--format", "csv", "--roster", "roster.csv")
    rows = read_rows(exported.out)
    assert [(r["student"], r["name"], r["score"], r["late"]) for r in rows] == [
        ("s1", "Ada Lovelace", "82", "no"),
        ("19", "evil", "0", "no"),
        ("18", "turingalan", "32.83", "yes"),
    ]
    files = ("export", SLUG, "--store", "c.db", "--format", "gradescope")
    assert "these are 3 files: give a folder by --out" in kept(*files).err
    assert kept(*files, "--out", "results").code == 0
    assert {p.name for p in Path("results").iterdir()} == {"18.json", "19.json", "s1.json"}
    Path("sheet.csv").write_text('Student,ID,SIS User ID,Section\n"Lovelace, Ada",17,s1,A\n')
    filled = ("export", SLUG, "--store", "c.db", "--format", "canvas", "--into", "sheet.csv")
    ran = kept(*filled, "--out", "new.csv")
    new = f"headcheck: new column, which the sheet did not have: {SLUG}\n"
    assert (ran.code, ran.err) == (1, f"{new}headcheck: left out: 18, 19\n")
    assert Path("new.csv").read_text().splitlines()[-1] == '"Lovelace, Ada",17,s1,A,82'


def test_code_is_exported_into_a_folder(kept: Command) -> None:
    ran = kept("export", SLUG, "--store", "c.db", "--format", "code", "--out", "code")
    left_out = ["headcheck: left out: 19 (evil_19_3_hw.py)"]
    assert (ran.code, ran.err.splitlines()[1:]) == (1, left_out)
    assert {each.name for each in Path("code").iterdir()} == {"18.py", "s1.py", "info.csv"}
    assert Path("code", "s1.py").read_text() == RIGHT


def test_feedback_is_written_into_a_folder(kept: Command) -> None:
    assert kept("comment", WHO, "see me", "--store", "c.db").code == 0
    ran = kept("export", SLUG, "--store", "c.db", "--format", "notebooks", "--out", "back")
    assert (ran.code, ran.err) == (0, "")
    assert {each.name for each in Path("back").iterdir()} == {"18.html", "19.html", "s1.html"}
    assert "see me" in Path("back/18.html").read_text()
    cell = {"cell_type": "code", "source": RIGHT, "metadata": {}, "outputs": []}
    notebook = {"cells": [{**cell, "execution_count": None}], "metadata": {}, "nbformat": 4}
    place = Path("submitted/ada/ps1/hw.ipynb")
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({**notebook, "nbformat_minor": 4}))
    graded = ("grade", "submitted", "--layout", "nbgrader", "--exercise", SLUG, "--run", "ps1")
    assert kept(*graded, "--store", "d.db").code == 0
    given = ("export", "ps1", "--store", "d.db", "--format", "notebooks")
    assert "give a folder by --out" in kept(*given).err
    assert kept(*given, "--out", "feedback").code == 0
    back = Path("feedback/ada/ps1/hw.ipynb")
    assert "82 / 82" in json.loads(back.read_text())["cells"][0]["outputs"][0]["data"]["text/plain"]


def test_a_run_is_replayed_to_the_same_verdicts(kept: Command) -> None:
    ran = kept("replay", SLUG, "--student", "s1", "--store", "c.db")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "the verdicts are the same")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("grade", "x", "--store", "c.db"), "add one, such as --run week-1"),
        (("grade", "x", "--run", "a"), "--run is about a course, which needs --store"),
        (("grade", "x", "--store", "c.db", "--run", "a"), "x: no such file or folder"),
        (("grade", "x", "--store", "c.db", "--run", "a/b"), "x: no such file or folder"),
        (("runs", "--store", "none.db"), "none.db: no such store; `headcheck grade"),
        (("regrade", "w", "--store", "d.db"), "there is no run 'w'; there are: none yet"),
        (("override", "w", "1", "--store", "d.db"), "w: write RUN/STUDENT"),
        (("override", "w/a", "--store", "d.db"), "give a score, or --clear"),
        (("override", "w/a", "1", "--store", "d.db"), "there is no run 'w'"),
        (("export", "w", "--store", "d.db", "--format", "csv"), "there is no run 'w'"),
        (("replay", "w", "--student", "a", "--store", "d.db"), "there is no run 'w'"),
    ],
)
def test_impossible_requests_are_reported(
    headcheck: Command, arguments: tuple[str, ...], message: str
) -> None:
    with open_store("d.db", create=True):
        pass
    ran = headcheck(*arguments)
    assert ran.code == 2
    assert message in ran.err


def test_more_points_than_there_are_cannot_be_given(course: Command) -> None:
    course(*GRADE)
    ran = course("override", f"{SLUG}/17", "101", "--store", "c.db")
    told = f"headcheck: {SLUG}/17: 101 is over the 82 points there are\n"
    assert (ran.code, ran.err) == (2, told)
    for given in ("nan", "inf", "1e400", "1e1", "70\x1b[2J"):
        ran = course("override", f"{SLUG}/17", given, "--store", "c.db")
        assert ran.code == 2 and "\x1b" not in ran.err
        assert ran.err.endswith("is no number of points, as in 2.5\n")
    assert "81.5 now" in course("override", f"{SLUG}/17", "81,5", "--store", "c.db").out


@pytest.mark.parametrize("package", ["sqlalchemy", "alembic"])
def test_missing_dependency_names_its_extra(package: str, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()  # a store that has to be migrated
    program = f"""
import sys
sys.modules["{package}"] = None
sys.argv = ["headcheck", "runs", "--store", {str(tmp_path / "empty.db")!r}]
from headcheck.exercises import BY_SLUG
from headcheck.grader.ui.cli import main
main()
"""
    done = run_python("-c", program)
    assert done.stderr == f"headcheck: needs {package}: {ADVICE} '.[course]'\n"
    assert (done.returncode, done.stdout) == (2, "")


def test_a_notebook_to_start_with_needs_nbformat(tmp_path: Path) -> None:
    for form, code in (("ipynb", 2), ("py", 0)):
        program = f"""
import sys
sys.modules["nbformat"] = None
sys.argv = ["headcheck", "start", "linear_layer", {str(tmp_path)!r}, "--form", {form!r}]
from headcheck.grader.ui.cli import main
main()
"""
        done = run_python("-c", program)
        assert done.returncode == code, done.stderr
        assert (f"{ADVICE} '.[student]'" in done.stderr) == (code == 2)


WITHOUT_TORCH = [
    ("runs",),
    ("override", f"{SLUG}/17", "50"),
    ("override", f"{SLUG}/17", "--clear"),
    ("comment", f"{SLUG}/17", "see me", "--exercise", SLUG),
    ("mark", f"{SLUG}/17"),
]


@pytest.mark.sampled("arguments", WITHOUT_TORCH, WITHOUT_TORCH[1:2], ids=" ".join)
def test_reading_a_store_and_deciding_needs_no_torch(
    course: Command, arguments: tuple[str, ...]
) -> None:
    assert course(*GRADE).code == 1
    program = f"""
import sys
from headcheck.grader.ui.cli import cli
cli({[*arguments, "--store", "c.db"]!r}, standalone_mode=False)
heavy = {{"torch", "numpy", "hypothesis", "alembic"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = run_python("-c", program)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_only_points_change_is_not_judged_again(
    kept: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "create_sandbox", refuse_to_judge)
    monkeypatch.setattr(grading, "precompile_plans", refuse_to_judge)
    Path("course.toml").write_text(f"[points.{SLUG}]\nvalues = 17\nprecision = 1.25\n")
    rounded = ("regrade", SLUG, "--store", "c.db", "--course", "course.toml", "--round", "2.5")
    assert kept(*rounded, "--diff").code == 1
    assert kept(*rounded).code == 1
    exported = kept("export", SLUG, "--store", "c.db", "--format", "csv")
    rows = {row["student"]: row for row in read_rows(exported.out)}
    assert {r["max_score"] for r in rows.values()} == {"55.25"}
    assert rows["s1"]["score"] == "55.25", "all points stay all points"
    assert rows["18"]["score"] == "30"
    again = (*GRADE, "--roster", "roster.csv", "--round", "4", "--format", "json")
    told = json.loads(kept(*again, "--course", "course.toml").out)
    scores = {each["student"]: each["score"] for each in told["submissions"]}
    assert scores == {"s1": 55.25, "18": 32.0, "19": 0.0}
    assert told["sandbox"] is not None
    assert kept("regrade", SLUG, "--store", "c.db").code == 0, "points are kept with the run"


def test_a_rubric_is_set_by_regrade_and_by_grade_and_judges_nothing(
    kept: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "create_sandbox", refuse_to_judge)
    weights = f"[weights.{SLUG}]\n99 = {{ style = 0 }}\n"
    Path("course.toml").write_text(f"[rubric.{SLUG}]\nstyle = {{ points = 18 }}\n{weights}")
    regrade = ("regrade", SLUG, "--store", "c.db", "--course", "course.toml")
    shown = kept(*regrade, "--diff")
    assert f"{SLUG}: 82 points before, 100 now" in shown.out and "2 would lose" in shown.out
    assert shown.err == "headcheck: in [weights], and without a result there: 99\n"
    assert "no criterion" not in kept(*regrade).err
    assert "32.83 before, 50.83 now" in kept("mark", WHO, "style", "18", "--store", "c.db").out
    Path("course.toml").write_text(f"[rubric.{SLUG}]\nstyle = {{ points = 8 }}\n")
    assert kept(*GRADE, "--roster", "roster.csv", "--course", "course.toml").code == 1
    assert kept(*GRADE, "--roster", "roster.csv").code == 1, "it stays without a course file"
    exported = kept("export", SLUG, "--store", "c.db", "--format", "csv")
    assert exported.err == "headcheck: not yet marked: 2 marks of 2 students\n"
    rows = {row["student"]: row for row in read_rows(exported.out)}
    assert (rows["18"]["score"], rows["18"]["max_score"]) == ("40.83", "90")
    assert len(kept("runs", "--store", "c.db").out.splitlines()) == 1


def test_a_score_is_one_number_everywhere(course: Command) -> None:
    Path("course.toml").write_text(f"[points.{SLUG}]\ngradients = 7.7\nprecision = 3.31\n")
    ran = course(*GRADE, "--course", "course.toml", "--round", "0.25", "--out", "report")
    told = json.loads(Path("report/report.json").read_text())["submissions"]
    score = next(f"{each['score']:g}" for each in told if each["student"] == "18")
    assert float(score) % 0.25 == 0 and float(score) > 0
    assert f"{score} / " in ran.out and f"{score} / " in Path("report/index.html").read_text()

    def export(form: str, *more: str) -> str:
        return course("export", SLUG, "--store", "c.db", "--format", form, *more).out

    [row] = [row for row in read_rows(export("csv")) if row["student"] == "18"]
    assert row["score"] == row["judged"] == score
    assert f",{score}\r\n" in export("canvas")
    assert f",{score}," in export("moodle-gradebook")
    assert export("gradescope", "--out", "out") == export("github", "--out", "out") == ""
    assert json.loads(Path("out/18.json").read_text())["score"] == float(score)
    tests = json.loads(base64.b64decode(Path("out/18.result").read_bytes()))["tests"]
    assert sum(test["score"] for test in tests) == pytest.approx(float(score), abs=1e-9)
    assert course("dashboard", SLUG, "--store", "c.db", "--out", "pages").code == 0
    assert f"{score} / " in Path("pages/index.html").read_text()
    [student] = [p for p in Path("pages").iterdir() if "turingalan" in p.name]
    assert f"{score} / " in student.read_text()
    assert course("override", WHO, "1.239", "--store", "c.db").code == 0
    assert ",1.24\r\n" in export("canvas") and ",1.24," in export("csv")
