"""What gradebooks get: the rules that each of them documents, on a course with everything odd.

Where a consumer's own code can be installed, `test_consumers.py` asks that, too.
"""

import base64
import csv
import io
import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from grader.cohort import commands, roster
from grader.cohort.export import FORMATS, Exported, Gradebook, NotExported, export, sheet
from grader.cohort.export.book import FORMULA, cell, file_name, number
from grader.cohort.export.prairielearn import LARGEST
from grader.cohort.records import Override
from grader.cohort.roster import Student
from grader.cohort.standing import Standing
from grader.report import ErrorRecord, SubmissionRecord

Record = Callable[..., SubmissionRecord]
WEEK = "week 1"
PEOPLE = [
    Student("s1", "Ada Lovelace", "Ada", "Lovelace", "ada@x.org", section="A", handles=("17",)),
    Student("s2", 'Conway "Jr" O\'Neil, Esq.', "", "", "conway@x.org", handles=("18",)),
    Student("s3", "=cmd|'/c calc'!A1", "", "", "+1@x.org", handles=("19",)),
    Student("s4", "Émilie 李 du Châtelet", "Émilie 李", "du Châtelet", "", handles=("20",)),
]
MISSING = "../../etc/passwd"  # an id that is on no roster


def standing(student: str, record: SubmissionRecord, handle: str = "", **more: Any) -> Standing:
    values: dict[str, Any] = {
        "name": student,
        "email": "",
        "handle": handle or student,
        "exercise": record.exercise or "",
        "score": record.score,
        "max_score": record.max_score or 100.0,
        "judged": record.score,
        "status": record.status,
        "attempt": 1,
        "late": False,
        "submitted": None,
        "record": record,
        **more,
    }
    return Standing(student=student, **values)


@pytest.fixture
def book(record: Record) -> Gradebook:
    """Right, wrong, decided by a person, unreadable, and known to no roster."""
    decided = Override(WEEK, "s3", "causal_weights", 33.333333, "secret reason", "prof")
    unread = replace(
        record("s4", 0),
        properties=(),
        status="not_tried",
        diagnosis=(),
        error=ErrorRecord("syntax", '"(" was never closed', None, 3),
    )
    odd = record("s2", 50)
    thirds = tuple(replace(p, points=p.points / 3) for p in odd.properties)
    odd = replace(odd, properties=thirds, score=round(50 / 3, 6))
    return Gradebook(
        WEEK,
        (
            standing(MISSING, record(MISSING, 50), late=True),
            standing("s1", record("s1"), "17", comments=("=HYPERLINK(1)", "well\ndone")),
            standing("s2", odd, "18"),
            standing("s3", record("s3", 50), "19", override=decided, score=33.333333),
            standing("s4", unread, "20", submitted="2026-02-01T10:00:00+00:00"),
        ),
        roster.roster(PEOPLE),
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
    return sheet.read(path)


def table(exported: Exported, delimiter: str = ",") -> list[list[str]]:
    (data,) = exported.files.values()
    return list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter))


def column(rows: list[list[str]], name: str) -> list[str]:
    at = rows[0].index(name)
    return [row[at] for row in rows[1:]]


def loaded(exported: Exported, ending: str = ".json") -> dict[str, Any]:
    return {n: json.loads(data) for n, data in exported.files.items() if n.endswith(ending)}


# ------------------------------------------------------------------------ all of them


def totals(exported: Exported, form: str) -> float:
    """The sum of points as the consumer of a format reads it."""
    if form == "junit":
        (data,) = exported.files.values()
        found = ET.fromstring(data).findall(".//property[@name='score']")
        return math.fsum(float(each.get("value", "")) for each in found)
    if form == "gradescope":
        return math.fsum(each["score"] for each in loaded(exported).values())
    if form == "prairielearn":  # every exercise here is worth 100
        return math.fsum(each.get("score", 0.0) * 100 for each in loaded(exported).values())
    if form == "github":
        results = [base64.b64decode(d) for n, d in exported.files.items() if n.endswith(".result")]
        return math.fsum(test["score"] for each in results for test in json.loads(each)["tests"])
    if form == "parquet":
        pq = pytest.importorskip("pyarrow.parquet")
        (data,) = exported.files.values()
        return float(sum(pq.read_table(io.BytesIO(data)).column("score").to_pylist()))
    rows = table(exported)
    name = {"csv": "score", "nbgrader": "score"}.get(form, WEEK)
    numbers = column(rows, name)[1:] if form == "canvas" else column(rows, name)
    return sum(float(text) for text in numbers)


ALONE = sorted(FORMATS.keys() - {"moodle-worksheet"})


@pytest.mark.parametrize("form", ALONE)
def test_every_format_has_the_same_sum_of_points(book: Gradebook, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    assert book.total == pytest.approx(200.0 / 1 + 16.666667 + 33.333333 - 50.0)
    assert totals(export(book, form), form) == pytest.approx(book.total, abs=2e-6)


@pytest.mark.parametrize("form", ALONE)
def test_the_same_results_are_the_same_bytes(book: Gradebook, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    assert export(book, form) == export(book, form)


@pytest.mark.parametrize("form", ALONE)
def test_nobody_at_all_is_no_error(form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    export(Gradebook("empty", ()), form)


@pytest.mark.parametrize("form", ["canvas", "csv", "moodle-gradebook", "nbgrader"])
def test_no_cell_is_a_formula(book: Gradebook, form: str) -> None:
    cells = [text for row in table(export(book, form)) for text in row]
    assert not [text for text in cells if text.startswith(FORMULA)]
    assert any("=cmd" in text for text in cells), "it is there all the same"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\t=1", " =1", "\n=1", "＝1"])
def test_what_a_spreadsheet_could_run_is_quoted(text: str) -> None:
    assert cell(text).startswith("'")
    assert cell("Ada = Bob") == "Ada = Bob"


def test_why_a_person_decided_is_for_people_who_grade(book: Gradebook) -> None:
    for form in set(ALONE) - {"parquet"}:
        exported = export(book, form)
        texts = [*exported.files.values()]
        texts += [base64.b64decode(d) for n, d in exported.files.items() if n.endswith(".result")]
        assert not any(b"secret reason" in text for text in texts)


def test_points_have_no_exponent_and_no_needless_zeros() -> None:
    written = [number(x) for x in (0.0, -0.0, 100.0, 1e-7, 0.1 + 0.2, 33.333333, 1e6)]
    assert written == ["0", "0", "100", "0", "0.3", "33.333333", "1000000"]


def test_file_names_of_students_stay_in_the_folder() -> None:
    ids = [MISSING, "..", "", "a/b", "a\\b", "x" * 500, "x" * 499 + "y", "李" * 100, "con", "a\0b"]
    names = [file_name(each, ".json") for each in ids]
    assert len(set(names)) == len(ids)
    for name in names:
        assert Path(name).name == name and len(name.encode()) < 256
        assert name.isascii() and not name.startswith("..")


# ------------------------------------------------------------------------ one by one


def test_gradescope(book: Gradebook) -> None:
    allowed = {
        "score", "execution_time", "output", "output_format", "test_output_format",
        "test_name_format", "visibility", "stdout_visibility", "extra_data", "tests",
    }  # fmt: skip
    shown = {"hidden", "after_due_date", "after_published", "visible"}
    files = loaded(export(book, "gradescope"))
    assert len(files) == 5
    for each in files.values():
        assert each.keys() <= allowed
        assert each["visibility"] in shown and each["stdout_visibility"] in shown
        assert isinstance(each["execution_time"], int)
        for test in each["tests"]:
            assert test["status"] in ("passed", "failed") and test["visibility"] in shown
            assert 0 <= test["score"] <= test["max_score"]
    assert files["s1.json"]["output"] == "=HYPERLINK(1)\nwell\ndone"
    assert "never closed" in files["s4.json"]["output"] and files["s4.json"]["tests"] == []
    told = files["s3.json"]["tests"][1]["output"]
    assert 'expected  1 < 2 & "3"' in told and "\\x1b" in told, (
        "as text, with no control characters"
    )


def test_prairielearn(book: Gradebook) -> None:
    files = loaded(export(book, "prairielearn"))
    unread = files.pop("s4.json")
    assert unread == {"gradable": False, "format_errors": ['"(" was never closed']}
    for each in files.values():
        assert each["gradable"] is True and 0 <= each["score"] <= 1
        assert all({"points", "max_points"} <= test.keys() for test in each["tests"])


def test_prairielearn_takes_one_megabyte(book: Gradebook, record: Record) -> None:
    claim = replace(record("x", 50).properties[1], message="m" * 4000)
    wide = replace(record("x", 50), properties=tuple(claim for _ in range(1000)))
    (data,) = export(Gradebook(WEEK, (standing("x", wide),)), "prairielearn").files.values()
    assert LARGEST / 4 < len(data) <= LARGEST


def test_github_classroom(book: Gradebook) -> None:
    files = export(book, "github").files
    results = {n: json.loads(base64.b64decode(d)) for n, d in files.items() if n.endswith("result")}
    assert {n: r["status"] for n, r in results.items() if n.startswith("s")} == {
        "s1.result": "pass",
        "s2.result": "fail",
        "s3.result": "fail",
        "s4.result": "error",
    }
    keys = ["name", "status", "score", "message", "test_code", "filename", "line_no", "duration"]
    for each in results.values():
        assert each["version"] == 1 and each["max_score"] == 100 and each["tests"]
        for test in each["tests"]:
            assert list(test) == keys and test["status"] in ("pass", "fail", "error")
    assert files["s4.annotations"] == b'::error file=s4.py,line=3::"(" was never closed\n'
    assert files["s2.annotations"] == b"::error file=s2.py::Not scaled.\n"


def test_an_annotation_is_one_command_whatever_it_says(record: Record) -> None:
    evil = "x\n::set-output name=a::b\r100%"
    error = ErrorRecord("syntax", evil, None, 3)
    bad = replace(record("a", 0), file="a,line=1::b\n.py", properties=(), error=error, diagnosis=())
    (text,) = (
        data
        for name, data in export(Gradebook(WEEK, (standing("a", bad),)), "github").files.items()
        if name.endswith(".annotations")
    )
    (line,) = text.decode().splitlines()
    assert line.startswith("::error file=a%2Cline=1%3A%3Ab\\n.py,line=3::x%0A")


def test_junit(book: Gradebook) -> None:
    (data,) = export(book, "junit").files.values()
    root = ET.fromstring(data)
    assert root.tag == "testsuites" and data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>')
    suites = root.findall("testsuite")
    for element in (root, *suites):
        for count, tag in (
            ("tests", "testcase"), ("failures", "failure"), ("errors", "error"),
            ("skipped", "skipped"),
        ):  # fmt: skip
            assert int(element.get(count, "-1")) == len(element.findall(f".//{tag}"))
    cases = root.findall(".//testcase")
    assert all(case.get("classname") and case.get("name") for case in cases)
    names = [p.get("value") for p in root.findall(".//property[@name='name']")]
    assert len(names) == 5


def test_nbgrader(book: Gradebook) -> None:
    rows = table(export(book, "nbgrader"))
    assert ",".join(rows[0]) == (
        "assignment,duedate,timestamp,student_id,last_name,first_name,email,raw_score,"
        "late_submission_penalty,score,max_score"
    )
    told = {row[3]: row for row in rows[1:]}
    assert told["s4"][2] == "2026-02-01T10:00:00+00:00"
    assert told["s4"][4:6] == ["du Châtelet", "Émilie 李"]
    assert told["s1"][0] == WEEK and told["s1"][-3:] == ["0", "100", "100"]


def test_plain(book: Gradebook) -> None:
    rows = table(export(book, "csv"))
    assert column(rows, "student") == [MISSING, "s1", "s2", "s3", "s4"]
    assert column(rows, "overridden") == ["no", "no", "no", "yes", "no"]
    assert column(rows, "late")[0] == "yes" and column(rows, "judged")[3] == "50"
    assert column(rows, "name")[2] == 'Conway "Jr" O\'Neil, Esq.'


def test_parquet(book: Gradebook) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    import pyarrow.parquet as pq

    (data,) = export(book, "parquet").files.values()
    read = pq.read_table(io.BytesIO(data))
    assert read.num_rows == 5
    assert str(read.schema.field("score").type) == "double"
    assert read.column("name").to_pylist()[3] == "=cmd|'/c calc'!A1"


# ------------------------------------------------------------------------ filled in


def test_canvas_made_of_what_is_known(book: Gradebook) -> None:
    rows = table(export(book, "canvas"))
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", WEEK]
    assert rows[1] == ["    Points Possible", "", "", "", "", "100"]
    told = {row[2]: row for row in rows[2:]}
    assert told["s1"] == ["Lovelace, Ada", "17", "s1", "", "A", "100"]


def test_canvas_s_own_export_filled_in(book: Gradebook, tmp_path: Path) -> None:
    exported = export(replace(book, sheet=sheet_of(tmp_path, CANVAS)), "canvas")
    rows = table(exported)
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "week 1 (4711)"]
    assert rows[0] == header, "no other grade is touched"
    assert [row[-1] for row in rows[1:]] == [
        "100", "100", "16.666667", "33.333333", "0", "50", "7", "",
    ]  # fmt: skip
    assert [row[0] for row in rows[2:4]] == ["Lovelace, Ada", "O'Neil, Conway"]
    assert exported.left_out == ()
    graded = sum(float(row[-1]) for row in rows[2:7])
    assert graded == pytest.approx(book.total, abs=2e-6)


def test_who_is_not_in_the_sheet_is_said(book: Gradebook, tmp_path: Path) -> None:
    short = "".join(CANVAS.splitlines(keepends=True)[:3])
    exported = export(replace(book, sheet=sheet_of(tmp_path, short)), "canvas")
    assert exported.left_out == (MISSING, "s2", "s3", "s4")


def test_a_new_column_of_canvas_has_no_number(book: Gradebook, tmp_path: Path) -> None:
    given = replace(book, sheet=sheet_of(tmp_path, CANVAS), column="new")
    assert table(export(given, "canvas"))[0][-1] == "new"


def test_several_exercises_are_several_columns(book: Gradebook, record: Record) -> None:
    other = standing("s1", record("s1", 50, "linear_layer"), "17")
    rows = table(export(replace(book, standings=(*book.standings, other)), "canvas"))
    assert rows[0][-2:] == ["week 1 causal_weights", "week 1 linear_layer"]
    assert next(row for row in rows if row[2] == "s1")[-2:] == ["100", "50"]


def test_moodle_s_worksheet_in_any_language(book: Gradebook, tmp_path: Path) -> None:
    text = MOODLE.replace("Teilnehmer/in17", "Teilnehmer/in 17")
    given = sheet_of(tmp_path, text)
    exported = export(replace(book, sheet=given), "moodle-worksheet")
    rows = table(exported)
    assert column(rows, "Bewertung") == ["100", "16,666667", "33,333333", "0", "50", "12,5"]
    comments = column(rows, "Feedback als Kommentar")
    assert comments[0] == "'=HYPERLINK(1)\nwell\ndone" and comments[-1] == "old"
    untouched = [i for i in range(len(rows[0])) if i not in (4, 8)]
    for row, old in zip(rows, [given.header, *given.rows], strict=True):
        assert [row[i] for i in untouched] == [old[i] for i in untouched]
    assert exported.left_out == ()


def test_semicolons_stay_semicolons(book: Gradebook, tmp_path: Path) -> None:
    text = "Identifier;Full name;Grade;Maximum Grade\nParticipant 17;x;;100.00\n"
    exported = export(replace(book, sheet=sheet_of(tmp_path, text)), "moodle-worksheet")
    assert table(exported, ";")[1] == ["Participant 17", "x", "100", "100.00"]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (None, "", "download it and give it by --into"),
        (MOODLE, "Grade", "has no column 'Grade': ID, Vollständiger Name"),
        ("Identifier,Name\nParticipant 17,x\n", "", "name it by --column. There are: Identifier"),
        (
            "Identifier,Grade,Max\nParticipant 17,,50\n",
            "",
            "s1 has 100 points, and the .* takes 50",
        ),
    ],
)
def test_worksheets_that_cannot_take_grades_are_refused(
    book: Gradebook, tmp_path: Path, text: str | None, column: str, message: str
) -> None:
    given = None if text is None else sheet_of(tmp_path, text)
    with pytest.raises(NotExported, match=message):
        export(replace(book, sheet=given, column=column), "moodle-worksheet")


def test_moodle_s_gradebook_never_gets_feedback_without_a_grade(book: Gradebook) -> None:
    rows = table(export(book, "moodle-gradebook"))
    assert rows[0] == ["ID number", "Email address", "Full name", WEEK, f"{WEEK} (feedback)"]
    assert all(row[3] for row in rows[1:])
    assert rows[5][:3] == ["s4", "", "Émilie 李 du Châtelet"]


# ------------------------------------------------------------------------ the command


def test_the_command_offers_what_there_is() -> None:
    assert list(FORMATS) == list(commands.FORMATS)


def test_a_class_of_thousands_adds_up(record: Record) -> None:
    chance = random.Random(0)
    records: Mapping[int, SubmissionRecord] = {p: record("x", p) for p in (0, 50, 100)}
    many = tuple(standing(f"s{i:04}", records[chance.choice((0, 50, 100))]) for i in range(2000))
    book = Gradebook(WEEK, many)
    for form in set(ALONE) - {"parquet"}:
        assert totals(export(book, form), form) == pytest.approx(book.total)
