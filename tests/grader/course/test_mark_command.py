"""The command `headcheck mark` and its sheet, from the command line to the store."""

import csv
import io
import random
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.course.export.gradebook import FORMULA_PREFIXES
from headcheck.grader.course.export.mark_sheet import number_students
from headcheck.grader.course.intake.gather import SubmittedFile
from headcheck.grader.course.intake.roster import Student
from headcheck.grader.course.policy import Policy
from headcheck.grader.course.result_lookup import load_results
from headcheck.grader.course.store import manifest
from headcheck.grader.course.store.records import Mark, hash_content
from headcheck.grader.course.store.store import open_store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.rubric import Criterion, Rubric
from headcheck.grader.ui.cli import main
from tests.commands import Command
from tests.grader.course.gradebooks import MakeRecord, read_rows
from tests.grader.course.test_course import killed

STORE = ("--store", "c.db")
EXPORT = ("export", "week", *STORE, "--format")
FROM_SHEET = ("mark", "week", "--from", "marks.csv", *STORE)
RUBRIC = Rubric(
    (
        Criterion("style", 4.0, "Names say what things are."),
        Criterion("report", 6.0),
        Criterion("extra", 2.0, bonus=True),
    )
)
HOSTILE = [
    *("=HYPERLINK(1)", "'=1", " -1+2", "＝1", "::error::x", "<script>alert(1)</script>"),
    *("\x1b[2J\x00gone\u202e", '"; drop, table\nand a second line', "x" * 9000),
]


def fill_store(
    record: MakeRecord, students: Sequence[str], path: Path = Path("c.db"), **rubrics: Rubric
) -> None:
    """A run in which everybody has 50 points, with the code in the store."""
    planned = manifest.build_manifest(Settings(exercise=BY_SLUG["causal_weights"]))
    chosen = rubrics or {"causal_weights": RUBRIC}
    with open_store(str(path), create=True) as store:
        run = store.begin("week", replace(planned, policy=Policy(rubrics=dict(chosen))))
        for student in students:
            who, file = Student(student, student.title()), f"{student}.py"
            handed = SubmittedFile(who, student, file, 1, False, None, None)
            records = [record(student, 50, slug) for slug in chosen]
            content = hash_content(f"# {student}".encode(), "py")
            store.save_judgement(run, planned.key, content, [handed], records)


@pytest.fixture(scope="module")
def filled(record: MakeRecord, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "c.db"
    fill_store(record, ("ada", "bob", "eve"), path)
    return path


@pytest.fixture
def marked(headcheck: Command, filled: Path) -> Command:
    """Runs the command beside a store of its own, in which three have handed in."""
    shutil.copy(filled, "c.db")
    return headcheck


def write(rows: Sequence[dict[str, str]], *, bom: bool = False, delimiter: str = ",") -> None:
    with Path("marks.csv").open("w", newline="", encoding="utf-8-sig" if bom else "utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def load() -> list[Mark]:
    with open_store("c.db") as store:
        return store.load_marks("week")


def scores() -> dict[str, float]:
    with open_store("c.db") as store:
        return {each.student: each.score for each in load_results(store, "week")}


# ------------------------------------------------------------------------ one mark


def test_a_mark_is_given_shown_changed_and_taken_back(marked: Command) -> None:
    ran = marked("mark", "week/ada", "style", "2,5", *STORE, "--comment", "Clear\nnames.")
    told = "week/ada causal_weights: 50 before, 52.5 now\n"
    assert (ran.code, ran.out, ran.err) == (0, told, "")
    assert "52.5 before, 53 now" in marked("mark", "week/ada", "style", "3", *STORE).out
    assert "53 before, 55 now" in marked("mark", "week/ada", "extra", "2", *STORE).out
    style, report, extra = marked("mark", "week/ada", *STORE).out.splitlines()
    [_, changed, _] = load()
    assert changed.comment == "Clear\nnames.", "what is not given stays"
    day = changed.created[:16]
    assert style.split("  ") and f"{changed.author}  {day}  Clear\\nnames." in style
    assert "3 of 4 points" in style and report.split() == ["report", "not", "yet", "marked"]
    assert "2 of up to 2 points" in extra
    ran = marked("mark", "week/ada", "style", "--clear", *STORE)
    assert "55 before, 52 now" in ran.out
    assert len(load()) == 4, "history stays"


def test_an_override_beats_marks(marked: Command) -> None:
    marked("override", "week/ada", "7", *STORE)
    ran = marked("override", "week/ada", "112.5", *STORE)
    told = "headcheck: week/ada: 112.5 is over the 112 points there are\n"
    assert ran.err == told, "with a bonus"
    ran = marked("mark", "week/ada", "style", "3", *STORE)
    assert ran.out == "week/ada causal_weights: 7 before, 7 now, as set by `headcheck override`\n"
    assert "7 before, 53 now" in marked("override", "week/ada", "--clear", *STORE).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("week/ada", "stile", "3"), "causal_weights: there is no criterion 'stile'; did you mean"),
        (("week/ada", "style", "4.01"), "style: 4.01 is over the 4 points there are"),
        (("week/ada", "style", "9" * 400), "style: 9999"),
        (("week/ada", "style", "nan"), "style: 'nan' is no number of points, as in 2.5"),
        (("week/ada", "style", "-1"), "No such option '-1'"),
        (("week/ada", "style", "1e3"), "style: '1e3' is no number of points"),
        (("week/ada", "style", "three\x1b"), "style: 'three\\x1b' is no number of points"),
        (("week/ada", "style"), "give points, or --clear to take earlier ones back"),
        (("week/ada", "style", "3", "--clear"), "give points, or --clear"),
        (("week/ada", "--clear"), "name a criterion of the rubric before the points"),
        (("week", "style", "3"), "week: write RUN/STUDENT"),
        (("week/adx", "style", "3"), "nobody with this id has handed in anything; did you mean"),
        (("week/ada", "style", "3", "--exercise", "rope"), "no result for 'rope'"),
        (("none/ada", "style", "3"), "there is no run 'none'; there are: week"),
        (("week", "style", "--from", "marks.csv"), "--from takes everything from the sheet"),
        (("week", "--from", "none.csv"), "none.csv: cannot be read"),
    ],
)
def test_impossible_marks_are_refused(
    marked: Command, arguments: tuple[str, ...], message: str
) -> None:
    ran = marked("mark", *arguments, *STORE)
    assert ran.code == 2 and message in ran.err and load() == []


def test_without_a_rubric_the_course_file_is_named(headcheck: Command, record: MakeRecord) -> None:
    fill_store(record, ("ada",), causal_weights=Rubric())
    told = "has no rubric: write one into the course file, and give that file to `headcheck regrade"
    assert f"causal_weights: {told}" in headcheck("mark", "week/ada", "style", "3", *STORE).err
    ran = headcheck(*EXPORT, "marks")
    assert (ran.code, ran.out) == (2, "") and f"headcheck: week: {told}" in ran.err


# ------------------------------------------------------------------------ a sheet


def test_a_sheet_goes_out_and_comes_back(marked: Command) -> None:
    marked("mark", "week/bob", "report", "6", *STORE, "--comment", "Good.")
    ran = marked(*EXPORT, "marks", "--out", "marks.csv")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    rows = read_rows(Path("marks.csv").read_text(encoding="utf-8"))
    assert list(rows[0]) == [
        *("student", "name", "exercise", "handed_in_by", "style", "style comment"),
        *("report", "report comment", "extra", "extra comment"),
    ]
    assert [each["name"] for each in rows] == ["Ada", "Bob", "Eve"]
    assert (rows[1]["report"], rows[1]["report comment"], rows[1]["style"]) == ("6", "Good.", "")
    again = marked(*FROM_SHEET)
    assert (again.code, again.out) == (0, "week: changed 0 marks of 0 students\n")
    rows[0] |= {"style": "3.5", "style comment": "Short."}
    rows[1] |= {"report": "", "report comment": "", "extra": "1"}  # empty changes nothing
    rows[2] |= {"report": "0"}
    write(rows)
    ran = marked(*FROM_SHEET)
    assert (ran.code, ran.out) == (0, "week: changed 3 marks of 3 students\n")
    assert scores() == {"ada": 53.5, "bob": 57.0, "eve": 50.0}
    ran = marked(*EXPORT, "csv")
    assert ran.err == "headcheck: not yet marked: 3 marks of 3 students\n"
    [ada, bob, eve] = read_rows(ran.out)
    assert (ada["marked"], ada["not_yet_marked"], ada["mark_style"]) == ("3.5", "report", "3.5")
    assert (bob["judged"], bob["marked"], bob["mark_extra"]) == ("50", "7", "1")
    assert (eve["mark_report"], eve["mark_style"]) == ("0", "")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("bom", [False, True])
def test_rows_and_columns_may_be_in_any_order(marked: Command, delimiter: str, bom: bool) -> None:
    rows = [
        {"report comment": "Fine.", "student": "eve", "report": "1,5"},
        {"report comment": "", "student": "ada", "report": "2"},
    ]
    write(rows, bom=bom, delimiter=delimiter)
    assert marked(*FROM_SHEET).code == 0
    assert scores() == {"ada": 52.0, "bob": 50.0, "eve": 51.5}


def test_a_sheet_of_numbers_names_nobody_and_comes_back(marked: Command) -> None:
    marked("mark", "week/bob", "style", "1", *STORE, "--comment", "Bob, see me.")
    ran = marked(*EXPORT, "marks", "--anonymous", "--out", "marks.csv")
    assert ran.code == 0
    text = Path("marks.csv").read_text(encoding="utf-8")
    assert not any(word in text.casefold() for word in ("ada", "bob", "eve"))
    rows = read_rows(text)
    assert len({each["student"] for each in rows}) == 3
    assert all(len(each["student"]) == 17 for each in rows)
    again = marked(*EXPORT, "marks", "--anonymous").out.removeprefix("\ufeff")
    assert again == text.removeprefix("\ufeff").replace("\n", "\r\n"), "the numbers stay"
    [bob] = [each for each in rows if each["style"] == "1"]
    bob["style"], bob["report"] = "2", "4"
    write(rows)
    assert "changed 2 marks of 1 student" in marked(*FROM_SHEET).out
    assert scores() == {"ada": 50.0, "bob": 56.0, "eve": 50.0}
    assert [each.comment for each in load() if each.criterion == "style"] == ["Bob, see me."] * 2
    assert marked(*EXPORT, "code", "--anonymous", "--out", "code").code == 0
    names = {each.name for each in Path("code").iterdir()} - {"info.csv"}
    assert names == {f"{each['student']}.py" for each in rows}
    assert Path("code", f"{bob['student']}.py").read_text() == "# bob"
    info = Path("code", "info.csv").read_text()
    assert not any(word in info.casefold() for word in ("ada", "bob", "eve"))


def test_numbers_need_the_secret() -> None:
    students = [f"s{i}" for i in range(2000)]
    one, other = number_students(students, "one"), number_students(students, "other")
    assert len(set(one.values())) == 2000 and not set(one.values()) & set(other.values())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"student": "adx"}, "row 2 (adx): nobody with this id or number has anything to mark"),
        ({"exercise": "rope"}, "row 2 (ada): there is nothing to mark in 'rope'"),
        ({"style": "4.5"}, "row 2 (ada): style: 4.5 is over the 4 points there are"),
        ({"style": "good"}, "row 2 (ada): style: 'good' is no number of points"),
        ({"style": "-1"}, "row 2 (ada): style: '-1' is no number of points"),
        ({"style": "", "style comment": "x"}, "row 2 (ada): a comment on 'style' needs points"),
        ({"student": "bob"}, "row 3 (bob): there is another row for the same exercise"),
        ({"student": "\x1b[2J"}, "row 2 (\\x1b[2J): nobody with this id"),
    ],
)
def test_one_wrong_cell_refuses_the_sheet(
    marked: Command, changed: dict[str, str], message: str
) -> None:
    rows = read_rows(marked(*EXPORT, "marks").out)
    for each in rows:
        each["style"] = "3"
    rows[0] |= changed
    write(rows)
    ran = marked(*FROM_SHEET)
    assert ran.code == 2 and ran.err.startswith(f"headcheck: {message}")
    assert ran.err.endswith("; no mark was changed\n") and ran.err.count("\n") == 1
    assert load() == []


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("name,style", "the sheet has no column 'student': name, style"),
        ("student,stile", "there is no criterion 'stile'; there are style, report, extra; no mark"),
        ("student,style,style", "the sheet has two columns 'style'; no mark was changed"),
    ],
)
def test_columns_that_are_not_clear_are_refused(marked: Command, header: str, message: str) -> None:
    Path("marks.csv").write_text(f"{header}\nada,3,3\n")
    ran = marked(*FROM_SHEET)
    assert ran.code == 2 and f"headcheck: {message}" in ran.err and load() == []


def test_several_exercises_have_rows_of_their_own(headcheck: Command, record: MakeRecord) -> None:
    other = Rubric((Criterion("proof", 5.0),))
    fill_store(record, ("ada",), causal_weights=RUBRIC, linear_layer=other)
    rows = read_rows(headcheck(*EXPORT, "marks").out)
    assert [each["exercise"] for each in rows] == ["causal_weights", "linear_layer"]
    rows[1]["proof"] = "5"
    write(rows)
    assert headcheck(*FROM_SHEET).code == 0
    assert "say which with --exercise" in headcheck("mark", "week/ada", "proof", "1", *STORE).err
    rows[0]["proof"] = "5"
    write(rows)
    ran = headcheck(*FROM_SHEET)
    assert "row 2 (ada): causal_weights has no criterion 'proof'" in ran.err
    write([{"student": "ada", "proof": "4"}])
    ran = headcheck(*FROM_SHEET)
    assert "row 2 (ada): name the exercise in a column 'exercise'" in ran.err


def test_hostile_comments_are_text_everywhere(headcheck: Command, record: MakeRecord) -> None:
    students = [f"s{i}" for i in range(len(HOSTILE))]
    fill_store(record, students)
    rows = read_rows(headcheck(*EXPORT, "marks").out)
    for row, comment in zip(rows, HOSTILE, strict=True):
        row |= {"style": "1", "style comment": comment.replace("\0", "")}
    write(rows)
    ran = headcheck(*FROM_SHEET)
    assert ran.out == f"week: changed {len(HOSTILE)} marks of {len(HOSTILE)} students\n"
    for form in ("marks", "csv"):
        exported = headcheck(*EXPORT, form).out.removeprefix("\ufeff")
        cells = [cell for row in csv.reader(io.StringIO(exported, newline="")) for cell in row]
        assert not [cell for cell in cells if cell.startswith(FORMULA_PREFIXES)]
        assert "\x1b" not in exported and "\u202e" not in exported
    Path("marks.csv").write_text(headcheck(*EXPORT, "marks").out, newline="")
    ran = headcheck(*FROM_SHEET)
    assert ran.out == "week: changed 0 marks of 0 students\n", "what comes back is what went out"
    for student in students:
        assert "\x1b" not in headcheck("mark", f"week/{student}", *STORE).out
    assert headcheck("dashboard", "week", *STORE, "--out", "pages").code == 0
    pages = [path.read_text(encoding="utf-8") for path in Path("pages").iterdir()]
    assert len(pages) > len(HOSTILE) and "<script>alert" not in "".join(pages)


def test_hostile_names_are_found_again(headcheck: Command, record: MakeRecord) -> None:
    students = ("=1+1", "-ada", "a,b\"c'", "\u202eeve", " bob ", "李")
    fill_store(record, students)
    rows = read_rows(headcheck(*EXPORT, "marks").out)
    for i, each in enumerate(rows):
        each["report"] = str(i)
    write(rows)
    assert headcheck(*FROM_SHEET).code == 0
    assert sorted(scores().values()) == [50.0 + i for i in range(len(students))]


# ------------------------------------------------------------------------ kill -9


def run_main(*arguments: str) -> None:
    sys.argv = ["headcheck", *arguments]
    with suppress(SystemExit):
        main()


def restore(saved: Path) -> None:
    for each in Path().glob("c.db*"):
        each.unlink()
    shutil.copy(saved, "c.db")


def test_a_kill_leaves_all_marks_of_a_sheet_or_none(headcheck: Command, record: MakeRecord) -> None:
    students = [f"s{i:03}" for i in range(100)]
    fill_store(record, students)
    headcheck("mark", "week/s000", "style", "1", *STORE)
    rows = read_rows(headcheck(*EXPORT, "marks").out)
    for each in rows:
        each |= {"style": "2", "report": "3", "report comment": "Fine."}
    write(rows)
    shutil.copy("c.db", "before.db")
    began = time.monotonic()
    assert headcheck(*FROM_SHEET).out == "week: changed 200 marks of 100 students\n"
    seconds = time.monotonic() - began
    restore(Path("before.db"))
    chance, whole = random.Random(0), 1 + 2 * len(students)
    for _ in range(6):
        killed(lambda: run_main(*FROM_SHEET), after=chance.uniform(0.2, 1.0) * seconds)
        if (count := len(load())) == whole:
            restore(Path("before.db"))
        assert count in (1, whole)
    assert headcheck(*FROM_SHEET).code == 0
    assert len(load()) == whole
    assert scores() == dict.fromkeys(students, 55.0)
    assert headcheck(*FROM_SHEET).out == "week: changed 0 marks of 0 students\n"


@pytest.mark.parametrize("pair", [("=ada", "'=ada"), ("ada", " ada "), ("a\x01", "a\\x01")])
def test_ids_that_are_the_same_cell_are_refused(
    headcheck: Command, record: MakeRecord, pair: tuple[str, str]
) -> None:
    fill_store(record, (*pair, "bob"))
    ran = headcheck(*EXPORT, "marks")
    assert "are the same cell; mark them with numbers, as --anonymous writes them" in ran.err
    rows = read_rows(ran.out)
    cells = [row["student"].strip() for row in rows]
    assert len(set(cells)) == 2, "otherwise this is no test"
    filled = [{**row, "style": "3"} for row in rows]
    write(filled)
    ran = headcheck(*FROM_SHEET)
    assert ran.code == 2 and load() == [] and ran.err.count("\n") == 1
    assert " and " in ran.err and "are the same cell" in ran.err
    # Who is not filled in keeps nobody from being marked.
    write([row if row["student"] == "bob" else {**row, "style": ""} for row in filled])
    assert headcheck(*FROM_SHEET).out.startswith("week: changed 1")
    # Numbers and single marks are as good as ever.
    numbered = headcheck(*EXPORT, "marks", "--anonymous").out
    write([{**row, "style": "2"} for row in read_rows(numbered)])
    assert "changed 3 marks" in headcheck(*FROM_SHEET).out
    assert headcheck("mark", f"week/{pair[1]}", "style", "4", *STORE).code == 0
    points = {each.student: each.points for each in load()}
    assert points == {pair[0]: 2.0, pair[1]: 4.0, "bob": 2.0}
