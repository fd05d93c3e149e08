"""What gradebooks get, format by format: the rules that each of them documents.

Where a consumer's own code can be installed, `test_consumers.py` asks that, too.
"""

import base64
import io
import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from headcheck.grader.course.export import Gradebook, export
from headcheck.grader.course.export.prairielearn import MAX_BYTES
from headcheck.grader.course.export.sheet import Sheet
from headcheck.grader.report.records import ErrorRecord
from tests.grader.course.gradebooks import (
    GRADESCOPE_FIELDS,
    UNKNOWN_STUDENT,
    WEEK,
    MakeRecord,
    get_column,
    load_json,
    make_standing,
    read_table,
)


def test_gradescope(odd_gradebook: Gradebook) -> None:
    shown = {"hidden", "after_due_date", "after_published", "visible"}
    files = load_json(export(odd_gradebook, "gradescope"))
    assert len(files) == 5
    for each in files.values():
        assert each.keys() <= GRADESCOPE_FIELDS
        assert each["visibility"] in shown and each["stdout_visibility"] in shown
        assert isinstance(each["execution_time"], int)
        for test in each["tests"]:
            assert test["status"] in ("passed", "failed") and test["visibility"] in shown
            assert 0 <= test["score"] <= test["max_score"]
    assert files["s1.json"]["output"] == "=HYPERLINK(1)\nwell\ndone"
    assert "never closed" in files["s4.json"]["output"] and files["s4.json"]["tests"] == []
    told = files["s3.json"]["tests"][1]["output"]
    assert 'expected  1 < 2 & "3"' in told
    assert "\\x1b" in told, "as text, with no control characters"


def test_prairielearn(odd_gradebook: Gradebook) -> None:
    files = load_json(export(odd_gradebook, "prairielearn"))
    unread = files.pop("s4.json")
    assert unread == {"gradable": False, "format_errors": ['"(" was never closed']}
    for each in files.values():
        assert each["gradable"] is True and 0 <= each["score"] <= 1
        assert all({"points", "max_points"} <= test.keys() for test in each["tests"])


def test_prairielearn_takes_one_megabyte(odd_gradebook: Gradebook, record: MakeRecord) -> None:
    claim = replace(record("x", 50).properties[1], message="m" * 4000)
    wide = replace(record("x", 50), properties=tuple(claim for _ in range(1000)))
    (data,) = export(Gradebook(WEEK, (make_standing("x", wide),)), "prairielearn").files.values()
    assert MAX_BYTES / 4 < len(data) <= MAX_BYTES


def test_github_classroom(odd_gradebook: Gradebook) -> None:
    files = export(odd_gradebook, "github").files
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


def test_an_annotation_is_one_command_whatever_it_says(record: MakeRecord) -> None:
    evil = "x\n::set-output name=a::b\r100%"
    error = ErrorRecord("syntax", evil, None, 3)
    bad = replace(record("a", 0), file="a,line=1::b\n.py", properties=(), error=error, diagnosis=())
    files = export(Gradebook(WEEK, (make_standing("a", bad),)), "github").files
    (text,) = (data for name, data in files.items() if name.endswith(".annotations"))
    (line,) = text.decode().splitlines()
    assert line.startswith("::error file=a%2Cline=1%3A%3Ab\\n.py,line=3::x%0A")


def test_junit(odd_gradebook: Gradebook) -> None:
    (data,) = export(odd_gradebook, "junit").files.values()
    root = ET.fromstring(data)
    assert root.tag == "testsuites" and data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>')
    suites = root.findall("testsuite")
    for element in (root, *suites):
        counts = {"tests": "testcase", "failures": "failure", "errors": "error"}
        for count, tag in {**counts, "skipped": "skipped"}.items():
            assert int(element.get(count, "-1")) == len(element.findall(f".//{tag}"))
    cases = root.findall(".//testcase")
    assert all(case.get("classname") and case.get("name") for case in cases)
    names = [p.get("value") for p in root.findall(".//property[@name='name']")]
    assert len(names) == 5


def test_nbgrader(odd_gradebook: Gradebook) -> None:
    rows = read_table(export(odd_gradebook, "nbgrader"))
    about = "assignment,duedate,timestamp,student_id,last_name,first_name,email"
    assert ",".join(rows[0]) == f"{about},raw_score,late_submission_penalty,score,max_score"
    told = {row[3]: row for row in rows[1:]}
    assert told["s4"][2] == "2026-02-01T10:00:00+00:00"
    assert told["s4"][4:6] == ["du Châtelet", "Émilie 李"]
    assert told["s1"][0] == WEEK and told["s1"][-3:] == ["0", "100", "100"]


def test_plain(odd_gradebook: Gradebook) -> None:
    rows = read_table(export(odd_gradebook, "csv"))
    assert get_column(rows, "student") == [UNKNOWN_STUDENT, "s1", "s2", "s3", "s4"]
    assert get_column(rows, "overridden") == ["no", "no", "no", "yes", "no"]
    assert get_column(rows, "late")[0] == "yes" and get_column(rows, "judged")[3] == "50"
    assert get_column(rows, "name")[2] == 'Conway "Jr" O\'Neil, Esq.'


def test_parquet(odd_gradebook: Gradebook) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    import pyarrow.parquet as pq

    (data,) = export(odd_gradebook, "parquet").files.values()
    read = pq.read_table(io.BytesIO(data))
    assert read.num_rows == 5
    assert str(read.schema.field("score").type) == "double"
    assert read.column("name").to_pylist()[3] == "=cmd|'/c calc'!A1"


@pytest.fixture
def unanswered(record: MakeRecord) -> Gradebook:
    """Crashed, out of time, without a return, and unread: none has a mistake with a name."""
    first, last = record("x", 0).properties
    crashed = replace(first, status="crashed", message="It runs.\n  got       KeyError: 1 (line 4)")
    slow = replace(first, status="timed_out", message="It runs.\n  got       took more than 3 s")
    empty = replace(first, status="failed", message="It runs.\n  got       None")
    untried = replace(last, status="not_tried", message="")
    unread = ErrorRecord("syntax", "never closed", 1, 3)
    blank = replace(record("x", 0), diagnosis=(), properties=())
    records = [
        replace(blank, properties=(each, untried), status=each.status)
        for each in (crashed, slow, empty)
    ]
    records.append(replace(blank, status="not_tried", error=unread))
    people = zip(("s1", "s2", "s3", "s4"), ("Łukasz", "Émile", "Zoë", "李"), records, strict=True)
    results = (make_standing(who, made, name=name) for who, name, made in people)
    return Gradebook(WEEK, tuple(results))


TOLD = [
    "It crashed: KeyError: 1 (line 4)",
    "It timed out: took more than 3 s",
    "Fails: It runs. Got: None.",
    "never closed (cell 1, line 3)",
]


def test_tables_say_what_happened_where_there_is_no_mistake(unanswered: Gradebook) -> None:
    rows = read_table(export(unanswered, "moodle-gradebook"))
    assert get_column(rows, f"{WEEK} (feedback)") == TOLD
    assert get_column(rows, "Full name") == ["Łukasz", "Émile", "Zoë", "李"]
    assert get_column(read_table(export(unanswered, "csv")), "feedback") == TOLD
    header = "Identifier,Name,Grade,Maximum Grade,Feedback comments\n"
    lines = "".join(f"Participant s{i},x,,100.00,\n" for i in range(1, 5))
    sheet = Sheet(*_split(header + lines))
    filled = read_table(export(replace(unanswered, sheet=sheet), "moodle-worksheet"))
    assert get_column(filled, "Feedback comments") == TOLD


def _split(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    header, *rows = (tuple(line.split(",")) for line in text.splitlines())
    return header, tuple(rows)


@pytest.mark.parametrize("form", ["gradescope", "prairielearn"])
def test_results_say_what_happened_where_there_is_no_mistake(
    unanswered: Gradebook, form: str
) -> None:
    files = load_json(export(unanswered, form))
    told = [files[f"s{i}.json"].get("output") for i in range(1, 5)]
    assert told[:3] == TOLD[:3]
    assert told[3] == TOLD[3] or files["s4.json"]["format_errors"] == ["never closed"]
