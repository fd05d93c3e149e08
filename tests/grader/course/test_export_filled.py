"""Sheets that gradebooks handed out, filled in: what was there stays."""

import codecs
from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.grader.course.export import ExportError, Gradebook, export, sheet
from tests.grader.course.gradebooks import (
    UNKNOWN_STUDENT,
    WEEK,
    MakeRecord,
    get_column,
    make_standing,
    read_table,
)

CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,old (1),week 1 (4711),Final Score
    Points Possible,,,,,10,,(read only)
"Lovelace, Ada",17,s1,ada,A,10,1,90
"O'Neil, Conway",18,,conway,"A, B",5,2,80
"=cmd|'/c calc'!A1",19,s3,x,B,5,,
"du Châtelet, Émilie",,s4,,B,5,,
"Passwd, Etc",21,../../etc/passwd,,B,5,,
"Absent, Nobody",22,s9,n,B,5,7,
"Student, Test",99,,,,,,
"""
MOODLE = """\ufeff"ID","Vollständiger Name","E-Mail-Adresse","Status","Bewertung","Bestwertung",\
"Bewertung kann geändert werden","Zuletzt geändert (Bewertung)","Feedback als Kommentar"
"Teilnehmer/in17","Ada Lovelace","ada@x.org","Abgegeben","","100,00","Ja","-",""
"Teilnehmer/in 18","Conway O'Neil","other@x.org","Abgegeben","","100,00","Ja","-",""
"Teilnehmer/in 55","egal","+1@x.org","Abgegeben","","100,00","Ja","-",""
"Teilnehmer/in 56","Émilie 李 du Châtelet","","Abgegeben","","100,00","Ja","-",""
"Teilnehmer/in ../../etc/passwd","","","Abgegeben","","100,00","Ja","-",""
"Teilnehmer/in 77","Nobody Absent","n@x.org","Nichts","12,5","100,00","Ja","-","old"
"""


def sheet_of(tmp_path: Path, text: str) -> sheet.Sheet:
    path = tmp_path / "sheet.csv"
    path.write_text(text, encoding="utf-8")
    return sheet.read_sheet(path)


def test_canvas_sheet_is_built_from_known_data(odd_gradebook: Gradebook) -> None:
    rows = read_table(export(odd_gradebook, "canvas"))
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", WEEK]
    assert rows[1] == ["    Points Possible", "", "", "", "", "100"]
    told = {row[2]: row for row in rows[2:]}
    assert told["s1"] == ["Lovelace, Ada", "17", "s1", "", "A", "100"]


def test_canvas_s_own_export_filled_in(odd_gradebook: Gradebook, tmp_path: Path) -> None:
    exported = export(replace(odd_gradebook, sheet=sheet_of(tmp_path, CANVAS)), "canvas")
    rows = read_table(exported)
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "week 1 (4711)"]
    assert rows[0] == header, "no other grade is touched"
    points = ["100", "100", "16.67", "33.33", "0", "50", "7"]
    assert [row[-1] for row in rows[1:]] == [*points, ""]
    assert [row[0] for row in rows[2:4]] == ["Lovelace, Ada", "O'Neil, Conway"]
    assert exported.left_out == ()
    graded = sum(float(row[-1]) for row in rows[2:7])
    assert graded == pytest.approx(odd_gradebook.total, abs=2e-6)


def test_more_points_than_canvas_takes_are_refused(
    odd_gradebook: Gradebook, tmp_path: Path
) -> None:
    small = sheet_of(tmp_path, CANVAS.replace(",10,,(read", ',10,"99,50",(read'))
    with pytest.raises(ExportError, match=r"s1 has 100 points, and the sheet allows 99\.5: .*"):
        export(replace(odd_gradebook, sheet=small), "canvas")


def test_students_missing_from_the_sheet_are_reported(
    odd_gradebook: Gradebook, tmp_path: Path
) -> None:
    short = "".join(CANVAS.splitlines(keepends=True)[:3])
    exported = export(replace(odd_gradebook, sheet=sheet_of(tmp_path, short)), "canvas")
    assert exported.left_out == (UNKNOWN_STUDENT, "s2", "s3", "s4")


def test_a_new_column_of_canvas_has_no_number(odd_gradebook: Gradebook, tmp_path: Path) -> None:
    given = replace(odd_gradebook, sheet=sheet_of(tmp_path, CANVAS), column="new")
    assert read_table(export(given, "canvas"))[0][-1] == "new"


def test_name_equal_to_an_id_gets_no_grade_of_that_id(
    odd_gradebook: Gradebook, tmp_path: Path
) -> None:
    text = CANVAS.replace('"Absent, Nobody",22,', "17,22,")
    rows = read_table(export(replace(odd_gradebook, sheet=sheet_of(tmp_path, text)), "canvas"))
    assert [row[-1] for row in rows if row[0] in ("17", "Lovelace, Ada")] == ["100", "7"]
    text = MOODLE.replace('"Nobody Absent"', '"Nobody 17"')
    book = replace(odd_gradebook, sheet=sheet_of(tmp_path, text))
    rows = read_table(export(book, "moodle-worksheet"))
    assert get_column(rows, "Bewertung")[-1] == "12,5"


def test_several_exercises_are_several_columns(
    odd_gradebook: Gradebook, record: MakeRecord
) -> None:
    other = make_standing("s1", record("s1", 50, "linear_layer"), "17")
    book = replace(odd_gradebook, results=(*odd_gradebook.results, other))
    rows = read_table(export(book, "canvas"))
    assert rows[0][-2:] == ["week 1 causal_weights", "week 1 linear_layer"]
    assert next(row for row in rows if row[2] == "s1")[-2:] == ["100", "50"]


def test_a_file_without_an_exercise_makes_no_column(
    odd_gradebook: Gradebook, record: MakeRecord, tmp_path: Path
) -> None:
    other = make_standing("s1", record("s1", 50, "linear_layer"), "17")
    nothing = replace(record("s4", 0), exercise=None, max_score=0.0)
    results = (*odd_gradebook.results[:4], other, make_standing("s4", nothing, "20"))
    book = replace(odd_gradebook, results=results)
    for given in (book, replace(book, sheet=sheet_of(tmp_path, CANVAS))):
        exported = export(given, "canvas")
        rows = read_table(exported)
        assert rows[0][-2:] == ["week 1 causal_weights", "week 1 linear_layer"]
        assert next(row for row in rows if "s4" in row)[-2:] == ["", ""]
        assert exported.remarks[-1] == "no grade, since no exercise was recognised: s4"


@pytest.mark.parametrize("word", ["Teilnehmer/in", "Teilnehmer/in ", "Katılımcı", "参加者"])
def test_moodle_s_worksheet_in_any_language(
    odd_gradebook: Gradebook, tmp_path: Path, word: str
) -> None:
    hidden = MOODLE.replace('"Ada Lovelace","ada@x.org"', '"",""')
    given = sheet_of(tmp_path, hidden.replace("Teilnehmer/in17", f"{word}17"))
    exported = export(replace(odd_gradebook, sheet=given), "moodle-worksheet")
    rows = read_table(exported)
    assert get_column(rows, "Bewertung") == ["100", "16,67", "33,33", "0", "50", "12,5"]
    comments = get_column(rows, "Feedback als Kommentar")
    assert comments[0] == "'=HYPERLINK(1)\nwell\ndone" and comments[-1] == "old"
    untouched = [i for i in range(len(rows[0])) if i not in (4, 8)]
    for row, old in zip(rows, [given.header, *given.rows], strict=True):
        assert [row[i] for i in untouched] == [old[i] for i in untouched]
    assert exported.left_out == ()


def test_semicolons_stay_semicolons(odd_gradebook: Gradebook, tmp_path: Path) -> None:
    text = "Identifier;Full name;Grade;Maximum Grade\nParticipant 17;x;;100.00\n"
    exported = export(replace(odd_gradebook, sheet=sheet_of(tmp_path, text)), "moodle-worksheet")
    assert read_table(exported, ";")[1] == ["Participant 17", "x", "100", "100.00"]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (None, "", "download it and give it with --into"),
        (MOODLE, "Grade", "has no column 'Grade': ID, Vollständiger Name"),
        ("Identifier,Name\nParticipant 17,x\n", "", "name it with --column. There are: Identifier"),
        (
            "Identifier,Grade,Max\nParticipant 17,,50\n",
            "",
            "s1 has 100 points, and the .* allows 50",
        ),
    ],
)
def test_worksheets_that_cannot_take_grades_are_refused(
    odd_gradebook: Gradebook, tmp_path: Path, text: str | None, column: str, message: str
) -> None:
    given = None if text is None else sheet_of(tmp_path, text)
    with pytest.raises(ExportError, match=message):
        export(replace(odd_gradebook, sheet=given, column=column), "moodle-worksheet")


def test_moodle_s_gradebook_never_gets_feedback_without_a_grade(odd_gradebook: Gradebook) -> None:
    rows = read_table(export(odd_gradebook, "moodle-gradebook"))
    assert rows[0] == ["ID number", "Email address", "Full name", WEEK, f"{WEEK} (feedback)"]
    assert all(row[3] for row in rows[1:])
    assert rows[5][:3] == ["s4", "", "Émilie 李 du Châtelet"]


@pytest.mark.parametrize(("text", "form"), [(CANVAS, "canvas"), (MOODLE, "moodle-worksheet")])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_byte_order_mark_stays_and_none_is_added(
    odd_gradebook: Gradebook, tmp_path: Path, text: str, form: str, mark: str
) -> None:
    given = sheet_of(tmp_path, mark + text.removeprefix("\ufeff"))
    (data,) = export(replace(odd_gradebook, sheet=given), form).files.values()
    assert data.startswith(codecs.BOM_UTF8) == bool(mark)
    assert "Émilie" in data.decode()


def test_a_new_column_and_a_missing_one_are_remarked(
    odd_gradebook: Gradebook, tmp_path: Path
) -> None:
    canvas = replace(odd_gradebook, sheet=sheet_of(tmp_path, CANVAS))
    assert export(canvas, "canvas").remarks == ()
    remark = "new column, which the sheet did not have: new"
    assert export(replace(canvas, column="new"), "canvas").remarks == (remark,)
    moodle = replace(odd_gradebook, sheet=sheet_of(tmp_path, MOODLE))
    assert export(moodle, "moodle-worksheet").remarks == ()
    text = "Identifier,Full name,Grade,Maximum Grade\nParticipant 17,x,,100.00\n"
    bare = replace(odd_gradebook, sheet=sheet_of(tmp_path, text))
    remark = "the worksheet has no column for comments after the column for the grade"
    assert export(bare, "moodle-worksheet").remarks == (f"no feedback in it: {remark}",)
