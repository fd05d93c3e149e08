"""Who handed in nothing: named by `grade`, a row of the dashboard, a cell of what has everybody."""

from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.grader.course import dashboard
from headcheck.grader.course.absent import add_absent, list_absent
from headcheck.grader.course.export import FORMATS, Gradebook, export
from headcheck.grader.course.export.gradebook import list_left_out
from headcheck.grader.course.export.sheet import Sheet
from headcheck.grader.course.intake.roster import Student, build_roster
from headcheck.grader.course.results import ExerciseResult
from tests.commands import RIGHT, WRONG, Command
from tests.grader.course.gradebooks import (
    PEOPLE,
    WEEK,
    MakeRecord,
    make_standing,
    read_rows,
    read_table,
)

COURSE = build_roster(PEOPLE)


@pytest.fixture
def book(record: MakeRecord) -> Gradebook:
    """Two of the four people on the roster handed in; one of them under an id of Canvas."""
    results = [make_standing("s1", record("s1"), "17"), make_standing("18", record("18", 50))]
    return Gradebook(WEEK, tuple(add_absent(results, COURSE)), COURSE)


def test_absent_is_whom_no_result_may_belong_to(record: MakeRecord) -> None:
    one = make_standing("s1", record("s1"))
    other = replace(one, student="x", handle="x")
    for result, who in (
        (one, "s1"),
        (replace(other, handle="19"), "s3"),
        (replace(other, name="Ada Lovelace"), "s1"),
        (replace(other, email="CONWAY@x.org"), "s2"),
        (make_standing("s2", record("s1"), group="blue", handed_in_by="s1"), "s2"),
    ):
        absent = [each.id for each in list_absent([result], COURSE)]
        assert absent == [each.id for each in PEOPLE if each.id != who]
    assert list_absent([one], build_roster(())) == ()


def test_whoever_handed_in_nothing_has_no_points_in_every_exercise(record: MakeRecord) -> None:
    other = make_standing("s1", record("s1", exercise="linear_layer"), max_score=40.0)
    unread = make_standing("s2", record("s2", exercise=None), max_score=0.0)
    found = add_absent([make_standing("s1", record("s1")), other, unread], COURSE)
    absent = [each for each in found if each.is_absent]
    assert [(e.student, e.exercise, e.score, e.max_score) for e in absent] == [
        ("s3", "causal_weights", 0.0, 100.0),
        ("s3", "linear_layer", 0.0, 40.0),
        ("s4", "causal_weights", 0.0, 100.0),
        ("s4", "linear_layer", 0.0, 40.0),
    ]
    assert len(found) == 7 and add_absent([], COURSE) == []


WRITTEN = [name for name, each in FORMATS.items() if each.absent and not each.fills]
"""formats with everybody; below are those that fill in a sheet"""


@pytest.mark.parametrize("form", WRITTEN)
def test_every_format_with_everybody_has_a_cell(book: Gradebook, form: str) -> None:
    if FORMATS[form].extra == "parquet":
        pytest.importorskip("pyarrow")
    before = Gradebook(WEEK, tuple(e for e in book.results if not e.is_absent), COURSE)
    more, less = (b"".join(export(each, form).files.values()) for each in (book, before))
    for who in ("s3", "s4"):
        assert who.encode() in more and who.encode() not in less
    assert book.total == before.total
    assert export(book, form).left_out == ()


def test_a_row_says_that_nothing_was_handed_in(book: Gradebook) -> None:
    [table] = export(book, "csv").files.values()
    rows = read_rows(table.decode())
    told = {row["student"]: (row["score"], row["status"], row["feedback"]) for row in rows}
    assert told["s4"] == ("0", "not_handed_in", "Nothing was handed in.")
    assert told["s1"][:2] == ("100", "passed")


def test_a_filled_sheet_keeps_the_grades_that_are_there(book: Gradebook) -> None:
    header = ("Student", "ID", "SIS User ID", "Section", "week 1 (4711)")
    rows = (
        ("    Points Possible", "", "", "", "100"),
        ("Lovelace, Ada", "17", "s1", "A", "3"),
        ("x", "19", "s3", "A", ""),
        ("y", "20", "s4", "A", "55"),
        ("z", "21", "s5", "A", "7"),
    )
    filled = export(replace(book, sheet=Sheet(header, rows)), "canvas")
    assert [row[-1] for row in read_table(filled)[1:]] == ["100", "100", "0", "55", "7"]
    assert filled.left_out == ("18",), "who is absent misses no row"


def test_a_filled_worksheet_keeps_the_grades_that_are_there(book: Gradebook) -> None:
    header = ("Identifier", "Full name", "Email address", "Grade", "Maximum", "Feedback comments")
    rows = (
        ("Participant 17", "Ada Lovelace", "ada@x.org", "", "100.00", ""),
        ("Participant 19", "x", "", "-", "100.00", ""),
        ("Participant 20", "y", "", "55.00", "100.00", "well said"),
    )
    filled = export(replace(book, sheet=Sheet(header, rows)), "moodle-worksheet")
    cells = [(row[3], row[5]) for row in read_table(filled)[1:]]
    assert cells[1:] == [("0", "Nothing was handed in."), ("55.00", "well said")]
    assert cells[0][0] == "100"


# ------------------------------------------------------------------------ who is left out


def stranger(record: MakeRecord, who: str, by: str = "s1", group: str = "blue") -> ExerciseResult:
    return replace(make_standing(who, record(who)), group=group, handed_in_by=by)


@pytest.mark.parametrize(
    ("roster", "rows", "left_out"),
    [
        (PEOPLE, ["s1", None], ()),
        ([*PEOPLE, Student("zz")], ["s1", None], ("zz",)),
        ([], ["s1"], ()),
        ([], ["s1", None], ("zz",)),
    ],
)
def test_a_member_on_no_roster_misses_no_row(
    record: MakeRecord, roster: list[Student], rows: list[str | None], left_out: tuple[str, ...]
) -> None:
    """Without a roster, an empty row may be the row of this member."""
    results = (make_standing("s1", record("s1")), stranger(record, "zz"))
    found, remarks = list_left_out(Gradebook(WEEK, results, build_roster(roster)), rows)
    assert found == left_out
    assert [("zz" in each) for each in remarks] == [True] * (not left_out)


@pytest.mark.parametrize(("by", "group"), [("zz", "blue"), ("zz", ""), ("s1", "")])
def test_who_handed_in_is_left_out_of_a_sheet_without_a_row(
    record: MakeRecord, by: str, group: str
) -> None:
    results = (make_standing("s1", record("s1")), stranger(record, "zz", by, group))
    found, remarks = list_left_out(Gradebook(WEEK, results, COURSE), ["s1"])
    assert (found, remarks) == (("zz",), ())


# ------------------------------------------------------------------------ the dashboard


def test_the_dashboard_has_a_row_and_no_page(book: Gradebook) -> None:
    pages = dashboard.render_pages(book, "1.0")
    text = dashboard.render(book, "1.0", tuple(pages))
    assert len(pages) == 2
    assert "4 students; 4 results: 1 passed, 2 not handed in, 1 failed" in text
    assert "on average 75 % of the points" in text, "of those who handed in"
    assert text.count('<tr data-status="not handed in">') == 2
    assert "Nothing was handed in." in text
    [row] = [line for line in text.split("\n") if "s4</bdi>" in line and "data-status" in line]
    assert "href" not in row and "0 / 100" in row and 'data-value="0">0<' not in row
    hidden = dashboard.render(dashboard.anonymise(book, "salt"), "1.0")
    assert "not handed in" in hidden and "Émilie" not in hidden


# ------------------------------------------------------------------------ commands

SLUG = "simplified_attention"
STORE = ("--store", "c.db")
ROSTER = ("--roster", "roster.csv")
WHO = ("ada", "bob", "cyd", "dan")
GRADE = ("grade", "class", "--layout", "plain", *STORE, "--run", "w", "--exercise", SLUG)


@pytest.fixture
def graded(headcheck: Command) -> Command:
    """Ada and Bob handed in, Cyd is in Ada's group with somebody unknown, and Dan did not."""
    Path("class").mkdir()
    Path("class/ada.py").write_text(RIGHT)
    Path("class/bob.py").write_text(WRONG)
    Path("roster.csv").write_text("student_id,email\n" + "".join(f"{w},{w}@x.org\n" for w in WHO))
    Path("c.toml").write_text(
        'feedback = "name"\n[groups]\nblue = ["ada", "cyd", "unknown"]\n'
        "[deadlines.w]\ndue = 2026-02-01T18:00:00Z\n"
    )
    rules = ("--course", "c.toml", *ROSTER)
    told = headcheck(*GRADE, *rules).err.splitlines()
    assert "headcheck: handed in nothing: dan" in told
    assert "headcheck: handed in at no known time, so not late: all 4 students" in told
    return headcheck


def test_commands_name_who_handed_in_nothing(graded: Command) -> None:
    ran = graded("export", "w", *STORE, "--format", "csv", *ROSTER)
    assert {row["student"] for row in read_rows(ran.out)} == {*WHO, "unknown"}
    assert "handed in nothing, so 0 points: dan" in ran.err and ran.code == 0
    ran = graded("export", "w", *STORE, "--format", "csv")
    assert "dan" not in ran.out + ran.err
    ran = graded("export", "w", *STORE, "--format", "gradescope", *ROSTER, "--out", "out")
    assert ran.code == 0
    assert {each.stem for each in Path("out").iterdir()} == {*WHO, "unknown"} - {"dan"}


def test_a_complete_sheet_ends_with_0_whoever_else_is_in_a_group(graded: Command) -> None:
    rows = "".join(f"{who},,{who},A\n" for who in WHO)
    Path("sheet.csv").write_text(f"Student,ID,SIS User ID,Section\n{rows}")
    into = ("export", "w", *STORE, "--format", "canvas", "--into", "sheet.csv")
    ran = graded(*into, *ROSTER)
    assert ran.code == 0
    assert "in a group, but on no roster and in no row of the sheet: unknown" in ran.err
    assert graded(*into).code == 1, "dan's row has no grade, and might be meant"
    Path("sheet.csv").write_text("Student,ID,SIS User ID,Section\nada,,ada,A\nbob,,bob,A\n")
    ran = graded(*into, *ROSTER)
    assert ran.code == 1 and "left out: cyd" in ran.err


def test_the_dashboard_tells_the_instructor_everything(graded: Command) -> None:
    ran = graded("comment", "w/bob", "Look at <the> axis.", *STORE)
    assert (ran.code, ran.out) == (0, "w/bob: added a comment on the work\n")
    ran = graded("comment", "w/bob", "Twice.", "--exercise", SLUG, *STORE)
    assert ran.out == f"w/bob: added a comment on the answer to {SLUG}\n"
    decided = ("override", "w/bob", "12", *STORE, "--reason", "an <oral> exam")
    assert graded(*decided).code == 0
    bob, index = open_dashboard(graded)
    for said in ("Look at &lt;the&gt; axis.", "Twice.", "an &lt;oral&gt; exam", "dim=0", "line 4"):
        assert said in bob, said
    assert "A person set the score to 12 points: an &lt;oral&gt; exam" in bob
    assert "12 / " in bob and "* decided by a person" in index and ">Seconds<" in index
    released, index = open_dashboard(graded, "--feedback", "name")
    assert "Twice." in released and "12 / " in released
    for hidden in ("oral", "dim=0", "line 4"):
        assert hidden not in released
    exported = graded("export", "w", *STORE, "--format", "csv").out
    assert "oral" not in exported and "Twice." in exported


def open_dashboard(headcheck: Command, *more: str) -> tuple[str, str]:
    """The page of bob, and the index."""
    folder = Path(f"pages{len(more)}")
    told = ("dashboard", "w", *STORE, *ROSTER, "--out", str(folder), *more)
    assert headcheck(*told).code == 0
    [page] = folder.glob("*bob*")
    return page.read_text(), (folder / "index.html").read_text()
