"""What gradebooks get: the rules that are the same for all of them."""

import base64
import json
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from headcheck.grader.course.export import FORMATS, ExportedFiles, ExportError, Gradebook, export
from headcheck.grader.course.export.gradebook import (
    FORMULA_PREFIXES,
    compare_maxima,
    escape_cell,
    format_number,
    make_file_name,
)
from headcheck.grader.course.export.sheet import Sheet
from headcheck.grader.course.marks import MarkedCriterion, add_marks
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.course.store.records import Mark, Override
from headcheck.grader.report.records import NOT_JUDGED, SubmissionRecord
from headcheck.grader.report.render.sanitise import UNSAFE
from headcheck.grader.report.rounding import round_sum
from headcheck.grader.report.rubric import Criterion
from tests.grader.course.gradebooks import (
    UNKNOWN_STUDENT,
    WEEK,
    MakeRecord,
    get_column,
    load_json,
    make_standing,
    read_scores,
    read_table,
)


def totals(exported: ExportedFiles, form: str) -> float:
    """The sum of points as the consumer of a format reads it; each exercise is worth 100."""
    return math.fsum(read_scores(exported.files, form, WEEK, 100.0))


ALONE = [name for name, form in FORMATS.items() if form.contents == "results" and not form.fills]
"""those with results that need nothing to fill in"""
PLAIN = [name for name in ALONE if not FORMATS[name].extra]
"""... and no package of their own"""


@pytest.fixture(params=ALONE)
def form(request: pytest.FixtureRequest) -> str:
    """Each of them whose package is installed."""
    if request.param == "parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    return str(request.param)


def test_every_format_has_the_same_sum_of_points(odd_gradebook: Gradebook, form: str) -> None:
    assert odd_gradebook.total == pytest.approx(200.0 / 1 + 16.666667 + 33.333333 - 50.0)
    assert totals(export(odd_gradebook, form), form) == pytest.approx(odd_gradebook.total, abs=2e-6)


STYLE, EXTRA = Criterion("style", 4.0), Criterion("extra", 2.0, bonus=True)


def mark_by_hand(book: Gradebook, weight: float = 1.0, bonus: float | None = None) -> Gradebook:
    """The same, where everybody has 3 of 4 points for style, but one student has no mark yet."""

    def marked(each: ExerciseResult) -> ExerciseResult:
        points = (None if each.student == "s2" else 3.0, bonus)
        marks = [Mark("", "", "", p, "=cmd <b>\x1b[1m", author="prof") for p in points]
        style = MarkedCriterion(STYLE, weight, marks[0])
        criteria = (style, MarkedCriterion(EXTRA, 1.0, marks[1]))
        earned, full = add_marks(each.judged, each.max_score, criteria)
        score = round_sum(each.score) if each.override else earned
        added = {"criteria": criteria, "marked": earned - each.judged}
        return replace(each, **added, score=score, max_score=full)  # type: ignore[arg-type]

    return replace(book, results=tuple(map(marked, book.results)))


@pytest.mark.parametrize("weight", [1.0, 0.0, 2.5])
@pytest.mark.parametrize("form", [f for f in ALONE if f != "prairielearn"], indirect=True)
def test_every_format_adds_marks_to_the_sum(
    odd_gradebook: Gradebook, form: str, weight: float
) -> None:
    book = mark_by_hand(odd_gradebook, weight, 1.5)
    if weight == 1.0:
        decided = sum(each.override is not None for each in book.results)
        assert book.total == pytest.approx(odd_gradebook.total + 3 * 3.0 + 4 * 1.5)
        assert decided == 1
    assert totals(export(book, form), form) == pytest.approx(book.total, abs=2e-6)


def test_what_is_marked_stands_in_every_feedback(odd_gradebook: Gradebook) -> None:
    book = mark_by_hand(odd_gradebook)
    style = "Marked by hand, style"
    said = f"{style}: 3 of 4 points. =cmd <b>\\x1b[1m"
    rows = read_table(export(book, "csv"))
    feedback = dict(zip(get_column(rows, "student"), get_column(rows, "feedback"), strict=True))
    assert said in feedback["s1"] and f"{style}: not yet marked" in feedback["s2"]
    assert set(get_column(rows, "mark_style")) == {"3", ""}
    assert set(get_column(rows, "mark_extra")) == {""}
    table = export(book, "moodle-gradebook").files["moodle-gradebook.csv"].decode()
    assert said in table
    for form, about in (("gradescope", "output"), ("prairielearn", "message")):
        files = load_json(export(book, form))
        name = "name" if form == "gradescope" else "description"
        [one], [other] = (
            [test for test in files[file]["tests"] if test[name] == style]
            for file in ("s1.json", "s2.json")
        )
        assert one[about] == said.removeprefix(f"{style}: ")
        assert other[about] == "not yet marked" and (form != "gradescope" or "score" not in other)
    junit = ET.fromstring(export(book, "junit").files["junit.xml"])
    told = [each.get("value") for each in junit.iterfind(".//property[@name='mark style']")]
    assert told.count("3 of 4 points") == 4 and told.count("not yet marked") == 1


def test_marks_have_tests_of_their_own_on_github(odd_gradebook: Gradebook) -> None:
    files = export(mark_by_hand(odd_gradebook), "github").files
    found = {}
    for student in ("s1", "s2", "s3"):
        tests = json.loads(base64.b64decode(files[f"{student}.result"]))["tests"]
        found[student] = [(t["score"], t["status"]) for t in tests if "style" in t["name"]]
    assert found == {"s1": [(3.0, "fail")], "s2": [(0.0, "fail")], "s3": []}


def test_a_bonus_may_lead_above_the_maximum(odd_gradebook: Gradebook) -> None:
    ada = replace(odd_gradebook, results=odd_gradebook.results[1:2])
    full = mark_by_hand(ada, weight=0.0, bonus=2.0)
    assert (full.results[0].score, full.results[0].max_score) == (106.0, 104.0)
    exported = export(full, "prairielearn")
    assert load_json(exported)["s1.json"]["score"] == 1.0
    assert exported.remarks == ("s1 has more than all points, and gets all points",)
    possible = ("    Points Possible", "", "104")
    sheet = Sheet(("Student", "ID", WEEK), (possible, ("Ada", "17", "")))
    rows = read_table(export(replace(full, sheet=sheet), "canvas"))
    assert rows[-1] == ["Ada", "17", "106"]
    low = replace(sheet, rows=(("    Points Possible", "", "100"), sheet.rows[1]))
    with pytest.raises(ExportError, match="s1 has 104 points, and the sheet allows 100"):
        export(replace(full, sheet=low), "canvas")


def test_the_same_results_are_the_same_bytes(odd_gradebook: Gradebook, form: str) -> None:
    assert export(odd_gradebook, form) == export(odd_gradebook, form)


def test_empty_class_is_no_error(form: str) -> None:
    """Passes if nothing is raised: what is in the files is compared elsewhere."""
    export(Gradebook("empty", ()), form)


@pytest.mark.parametrize("form", ["canvas", "csv", "moodle-gradebook", "nbgrader"])
def test_no_cell_is_a_formula(odd_gradebook: Gradebook, form: str) -> None:
    grouped = tuple(replace(each, group="=cmd|1\n") for each in odd_gradebook.results)
    exported = export(replace(odd_gradebook, results=grouped), form)
    cells = [text for row in read_table(exported) for text in row]
    assert not [text for text in cells if text.startswith(FORMULA_PREFIXES)]
    assert any("=cmd" in text for text in cells), "it is there all the same"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\t=1", " =1", "\n=1", "＝1"])
def test_formula_like_text_is_quoted(text: str) -> None:
    assert escape_cell(text).startswith("'")
    assert escape_cell("Ada = Bob") == "Ada = Bob"


def test_reasons_for_decisions_are_shown_to_graders_only(odd_gradebook: Gradebook) -> None:
    for form in PLAIN:
        exported = export(odd_gradebook, form)
        texts = [*exported.files.values()]
        texts += [base64.b64decode(d) for n, d in exported.files.items() if n.endswith(".result")]
        assert not any(b"secret reason" in text for text in texts)


def test_points_have_no_exponent_and_no_needless_zeros() -> None:
    written = [format_number(x) for x in (0.0, -0.0, 100.0, 1e-7, 0.1 + 0.2, 33.333333, 1e6)]
    assert written == ["0", "0", "100", "0", "0.3", "33.33", "1000000"]


def test_a_sheet_s_maximum_is_compared_in_hundredths() -> None:
    assert compare_maxima("0.3", 0.1 + 0.2) == ()
    assert len(compare_maxima("0.31", 0.1 + 0.2)) == 1


def test_file_names_of_students_stay_in_the_folder() -> None:
    ids = [
        *(UNKNOWN_STUDENT, "..", "", "a/b", "a\\b", "con", "a\0b", "a\u202eb"),
        *("x" * 500, "x" * 499 + "y", "李" * 100, "Émilie", "E\u0301milie"),
    ]
    names = [make_file_name(each, ".json") for each in ids]
    assert len(set(names)) == len(ids)
    for name in names:
        assert Path(name).name == name and len(name.encode()) < 256
        assert not UNSAFE.search(name) and "." not in name.removesuffix(".json")


@pytest.mark.parametrize("student", ["Émilie du Châtelet", "李小龍", "हिन्दी", "Łukasz-O_Neil"])
def test_file_names_of_students_are_names_in_all_scripts(student: str) -> None:
    assert make_file_name(student, ".json") == f"{student}.json"


def test_a_class_of_thousands_adds_up(record: MakeRecord) -> None:
    chance = random.Random(0)
    records: Mapping[int, SubmissionRecord] = {p: record("x", p) for p in (0, 50, 100)}
    many = tuple(
        make_standing(f"s{i:04}", records[chance.choice((0, 50, 100))]) for i in range(2000)
    )
    odd_gradebook = Gradebook(WEEK, many)
    for form in PLAIN:
        assert totals(export(odd_gradebook, form), form) == pytest.approx(odd_gradebook.total)


@pytest.mark.parametrize("form", PLAIN)
def test_nobody_gets_zero_points_for_a_busy_machine(form: str, record: MakeRecord) -> None:
    waiting = replace(record("eve", 0), status=NOT_JUDGED, properties=(), diagnosis=())
    book = Gradebook(WEEK, (make_standing("ada", record("ada")), make_standing("eve", waiting)))
    assert book.waiting == ("eve",)
    alone = Gradebook(WEEK, book.results[:1])
    exported = export(book, form)
    if form == "junit":
        assert b'value="" />' in exported.files["junit.xml"]
    elif form in ("csv", "nbgrader"):
        rows = read_table(exported)
        assert get_column(rows, "student" if form == "csv" else "student_id") == ["ada", "eve"]
        assert get_column(rows, "score") == ["100", ""]
    else:
        assert exported.files == export(alone, form).files


def test_a_decision_stands_for_what_could_not_be_judged(record: MakeRecord) -> None:
    waiting = replace(record("eve", 0), status=NOT_JUDGED, properties=())
    decided = Override(WEEK, "eve", "causal_weights", 70.0, "read it", "prof")
    standing = make_standing("eve", waiting, override=decided, score=70.0)
    assert standing.is_judged and Gradebook(WEEK, (standing,)).waiting == ()
