"""A course in which everything is odd, and what reads the files that are made of it."""

import base64
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn
from xml.etree import ElementTree as ET

import pytest

from headcheck.grader.course.export import ExportedFiles, Gradebook
from headcheck.grader.course.intake import roster
from headcheck.grader.course.intake.gather import SubmittedFile
from headcheck.grader.course.intake.roster import Student
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.course.store.manifest import Manifest
from headcheck.grader.course.store.records import GradedFile, Override, hash_content
from headcheck.grader.course.store.store import Store
from headcheck.grader.report.records import ErrorRecord, SubmissionRecord

MakeRecord = Callable[..., SubmissionRecord]
HandIn = Callable[..., GradedFile]
WEEK = "week 1"
DUE = datetime(2026, 2, 1, 18, tzinfo=UTC)
DAY = timedelta(days=1)
PEOPLE = [
    Student("s1", "Ada Lovelace", "Ada", "Lovelace", "ada@x.org", section="A", handles=("17",)),
    Student("s2", 'Conway "Jr" O\'Neil, Esq.', "", "", "conway@x.org", handles=("18",)),
    Student("s3", "=cmd|'/c calc'!A1", "", "", "+1@x.org", handles=("19",)),
    Student("s4", "Émilie 李 du Châtelet", "Émilie 李", "du Châtelet", "", handles=("20",)),
]
GRADESCOPE_FIELDS = {
    "score", "execution_time", "output", "output_format", "test_output_format",
    "test_name_format", "visibility", "stdout_visibility", "extra_data", "tests",
}  # fmt: skip
"""what may stand in results.json"""
UNKNOWN_STUDENT = "../../etc/passwd"  # an id that is on no roster


def make_standing(
    student: str, record: SubmissionRecord, handle: str = "", **more: Any
) -> ExerciseResult:
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
    return ExerciseResult(student=student, **values)


def make_graded_file(student: str, *records: SubmissionRecord, **more: Any) -> GradedFile:
    """A file that a student handed in, as the store gives it."""
    values: dict[str, Any] = {
        **dict.fromkeys(("name", "handle", "content"), student),
        "run": 1,
        "file": f"{student}/a.py",
        "kind": "py",
        "records": records,
        **more,
    }
    return GradedFile(student=student, **values)


def make_odd_gradebook(record: MakeRecord) -> Gradebook:
    """Right, wrong, decided by a person, unreadable, and known to no roster."""
    decided = Override(WEEK, "s3", "causal_weights", 33.333333, "secret reason", "prof")
    unread = replace(record("s4", 0), properties=(), status="not_tried", diagnosis=())
    unread = replace(unread, error=ErrorRecord("syntax", '"(" was never closed', None, 3))
    odd = record("s2", 50)
    thirds = tuple(replace(p, points=p.points / 3) for p in odd.properties)
    odd = replace(odd, properties=thirds, score=round(50 / 3, 6))
    return Gradebook(
        WEEK,
        (
            make_standing(UNKNOWN_STUDENT, record(UNKNOWN_STUDENT, 50), late=True),
            make_standing("s1", record("s1"), "17", comments=("=HYPERLINK(1)", "well\ndone")),
            make_standing("s2", odd, "18"),
            make_standing("s3", record("s3", 50), "19", override=decided, score=33.333333),
            make_standing("s4", unread, "20", submitted="2026-02-01T10:00:00+00:00"),
        ),
        roster.build_roster(PEOPLE),
    )


def save_records(
    store: Store, wanted: Manifest, *records: SubmissionRecord, of: Sequence[SubmittedFile] = ()
) -> None:
    """Put verdicts into the run of the week, each on the one file of its student, or `of` files."""
    run = store.begin(WEEK, wanted)
    for each in records:
        content = hash_content(each.student.encode(), "py")
        files = of or [make_hand_in(each.student)]
        store.save_judgement(run, wanted.key, content, files, [each])


def make_hand_in(
    student: str = "ada", file: str = "a.py", attempt: int = 1, late: bool = False
) -> SubmittedFile:
    return SubmittedFile(Student(student), student, file, attempt, late, None, None)


def refuse_to_judge(*_: object, **__: object) -> NoReturn:
    """Takes the place of whatever starts a judge, where nothing may be judged again."""
    raise AssertionError("something is judged again")


def read_rows(text: str) -> list[dict[str, str]]:
    """The rows of a table with headers."""
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def read_table(exported: ExportedFiles, delimiter: str = ",") -> list[list[str]]:
    (data,) = exported.files.values()
    text = data.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def get_column(rows: list[list[str]], name: str) -> list[str]:
    at = rows[0].index(name)
    return [row[at] for row in rows[1:]]


def load_json(exported: ExportedFiles, ending: str = ".json") -> dict[str, Any]:
    return {n: json.loads(data) for n, data in exported.files.items() if n.endswith(ending)}


def read_scores(files: Mapping[str, bytes], form: str, column: str, most: float) -> list[float]:
    """The points of everybody who has any, as the consumer of a format reads them.

    `most` is what the exercises together are worth, of which PrairieLearn has shares.
    """
    if form == "junit":
        (data,) = files.values()
        found = ET.fromstring(data).findall(".//property[@name='score']")
        return [float(each.get("value", "")) for each in found]
    if form in ("gradescope", "prairielearn"):
        worth = 1.0 if form == "gradescope" else most
        return [worth * json.loads(data).get("score", 0.0) for data in files.values()]
    if form == "github":
        results = [base64.b64decode(d) for n, d in files.items() if n.endswith(".result")]
        return [sum(test["score"] for test in json.loads(each)["tests"]) for each in results]
    if form == "parquet":
        pq = pytest.importorskip("pyarrow.parquet")
        (data,) = files.values()
        return list(pq.read_table(io.BytesIO(data)).column("score").to_pylist())
    return _read_sheet(files, form, column)


def _read_sheet(files: Mapping[str, bytes], form: str, column: str) -> list[float]:
    (data,) = files.values()
    text = data.decode("utf-8-sig")
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    named = (column, "score", "Grade", "Bewertung")
    name = next(each for each in named if each in rows[0])
    cells = get_column(rows, name)[form == "canvas" :]
    return [float(cell.replace(",", ".")) for cell in cells if cell]
