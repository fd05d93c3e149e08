"""What gradebooks get: the rules that are the same for all of them."""

import base64
import io
import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from grader.cohort.export import FORMATS, Exported, Gradebook, export
from grader.cohort.export.book import FORMULA, cell, file_name, number
from grader.report import SubmissionRecord
from tests.grader.cohort.gradebooks import (
    MISSING,
    WEEK,
    Record,
    column,
    loaded,
    standing,
    table,
)


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
    name = "score" if "score" in rows[0] else WEEK
    numbers = column(rows, name)[1:] if form == "canvas" else column(rows, name)
    return sum(float(text) for text in numbers)


ALONE = [name for name, form in FORMATS.items() if not form.into]
"""those that need nothing to fill in"""
PLAIN = [name for name in ALONE if not FORMATS[name].extra]
"""... and no package of their own"""


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
    for form in PLAIN:
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


def test_a_class_of_thousands_adds_up(record: Record) -> None:
    chance = random.Random(0)
    records: Mapping[int, SubmissionRecord] = {p: record("x", p) for p in (0, 50, 100)}
    many = tuple(standing(f"s{i:04}", records[chance.choice((0, 50, 100))]) for i in range(2000))
    book = Gradebook(WEEK, many)
    for form in PLAIN:
        assert totals(export(book, form), form) == pytest.approx(book.total)
