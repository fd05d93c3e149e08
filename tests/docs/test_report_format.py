"""docs/report-format.md says what the records of a report are, field by field."""

import dataclasses
import inspect
import json
import re
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from headcheck.grader import fault
from headcheck.grader.reading.outline import CodeWarning
from headcheck.grader.report.records import (
    FORMAT_VERSION,
    NO_VERDICT_KINDS,
    NOT_JUDGED,
    REPAIRED,
    Counterexample,
    DiagnosisRecord,
    ErrorRecord,
    EvidenceRecord,
    ExampleRecord,
    Excerpt,
    InfluenceEvidence,
    LayoutEvidence,
    LineRecord,
    NoteRecord,
    PlaceRecord,
    PropertyRecord,
    Report,
    SandboxRecord,
    SearchRecord,
    SeedRecord,
    SubmissionRecord,
    WeightsEvidence,
    build_report,
    compute_exit_code,
    from_json,
    to_json,
)
from headcheck.grader.sandbox.isolation import GUARANTEES, IsolationLevel
from headcheck.grader.seed import SeedKind, draw_secret_seed
from headcheck.grader.ui.cli import EXIT_ERROR
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status

PAGE = (Path(__file__).parents[2] / "docs" / "report-format.md").read_text(encoding="utf-8")
RECORDS = (
    Report,
    SubmissionRecord,
    PropertyRecord,
    Counterexample,
    Case,
    NoteRecord,
    ErrorRecord,
    SandboxRecord,
    SeedRecord,
    SearchRecord,
    DiagnosisRecord,
    PlaceRecord,
    LineRecord,
    EvidenceRecord,
    WeightsEvidence,
    InfluenceEvidence,
    LayoutEvidence,
    Excerpt,
    ExampleRecord,
)
EXAMPLE = ExampleRecord(
    "2 tokens, d_k = 4", "q·k", "scores", (("4", "2"),), (("2", "1"),), (("4", "2"),)
)
PLAIN = {int: "integer", str: "string", float: "number", bool: "boolean"}
JSON = {"integer": (int,), "string": (str,), "number": (int, float), "boolean": (bool,)}


def section(title: str) -> str:
    """What stands below a heading of the page, up to the next one."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, re.M | re.S)
    assert found is not None, f"the page has no section {title}"
    return found[1]


def table(title: str) -> list[list[str]]:
    """The rows of the table in a section, without its head."""
    rows = [line for line in section(title).splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def documented(title: str) -> dict[str, str]:
    """The type of every field of a record, as the page has it."""
    return {row[0].strip("`"): row[1] for row in table(title)}


def words(title: str) -> set[str]:
    """The words explained in the table of a section."""
    return {word for row in table(title) for word in re.findall(r"`(\w+)`", row[0])}


def shown(annotation: Any) -> str:
    """A type of the code in the words of the page."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is types.UnionType:
        one, nothing = arguments
        assert nothing is types.NoneType
        return f"{shown(one)} or null"
    if origin is tuple:
        return f"list of {shown(arguments[0])}"
    if origin is dict:
        return "object"
    if annotation in PLAIN:
        return PLAIN[annotation]
    return "string" if issubclass(annotation, str) else str(annotation.__name__)


def wrong_with(value: object, kind: str, at: str = "report") -> list[str]:
    """Where a value from JSON differs from what the page says of its type."""
    plain, _, rest = kind.partition(" or ")
    if value is None:
        return [] if rest == "null" and not plain.startswith("list") else [f"{at} is null"]
    if plain.startswith("list of ") and isinstance(value, list):
        of = kind.removeprefix("list of ")
        return [w for i, each in enumerate(value) for w in wrong_with(each, of, f"{at}[{i}]")]
    if isinstance(value, dict):
        return wrong_with_fields(value, "Case" if plain == "object" else plain, at)
    fits = type(value) in JSON.get(plain, ())
    return [] if fits else [f"{at} is {value!r}, no {kind}"]


def wrong_with_fields(value: Any, record: str, at: str) -> list[str]:
    fields = documented(record)
    if list(value) != list(fields):
        return [f"{at} has the fields {list(value)}"]
    return [w for name in fields for w in wrong_with(value[name], fields[name], f"{at}.{name}")]


def example() -> str:
    """The report that the page shows."""
    found = re.search(r"```json\n(.*?)```", PAGE, re.S)
    assert found is not None
    return found[1]


def some_evidence() -> EvidenceRecord:
    """One of each kind, a number that is none and an element from nowhere among them."""
    case, mask = str(Case()), ((True, False),)
    return EvidenceRecord(
        WeightsEvidence(
            case, 2, "weights", "returned", 0, 0, (0,), (0, 1), mask, ((1.0, 0.0),), ((None, 0.5),)
        ),
        InfluenceEvidence(case, 2, 0, (0, 1), mask, mask, mask),
        (LayoutEvidence("merge", "heads", 3, 2, 3, ((((0, 0, 0),),),), ((((0, 0, 1), ()),),)),),
    )  # fmt: skip


def a_report() -> Report:
    """One in which every field has something in it."""
    claim = PropertyRecord("kept", "It is kept.", "purity", "passed", 2.0, 2.0)
    broken = PropertyRecord(
        "equal",
        "It is equal.",
        "values",
        "failed",
        0.0,
        3.0,
        "It is equal.\n  expected  1",
        str(Case()),
        Counterexample(dataclasses.asdict(Case()), "print(1)"),
        some_evidence(),
    )
    judged = SubmissionRecord(
        "a.ipynb", "a", "causal_attention", "A", 2.0, 5.0, "failed", 0.5,
        (claim, broken), (NoteRecord("prints", "It prints.", 3, 1), NoteRecord("float32", "…")),
        diagnosis=(DiagnosisRecord("no_scale", "It is not scaled.", 3, None, 6, 7, EXAMPLE),),
        source=(Excerpt(3, 1, "import torch", (1,)),),
        search=SearchRecord(200, ("equal",), "it took too long"),
    )  # fmt: skip
    error = ErrorRecord("not_found", "no such file or folder")
    return build_report(
        [judged, SubmissionRecord("b", "b", None, None, 0, 0, "not_tried", 0, error=error)],
        IsolationLevel("B", ("landlock", "seccomp")),
        draw_secret_seed(),
    )


@pytest.mark.parametrize("record", RECORDS)
def test_the_page_has_the_fields_of_the_record(record: Any) -> None:
    hints = typing.get_type_hints(record)
    fields = {field.name: shown(hints[field.name]) for field in dataclasses.fields(record)}
    assert list(documented(record.__name__).items()) == list(fields.items())


@pytest.mark.parametrize("text", [to_json(a_report()), example()], ids=["built", "example"])
def test_report_matches_the_page(text: str) -> None:
    assert wrong_with(json.loads(text), "Report") == []
    assert json.loads(to_json(from_json(text))) == json.loads(text)
    assert json.loads(text)["format"] == FORMAT_VERSION


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"student": 3}, "report.submissions[0].student is 3, no string"),
        ({"error": {}}, "report.submissions[0].error has the fields []"),
        ({"seconds": True}, "report.submissions[0].seconds is True, no number"),
        ({"file": None}, "report.submissions[0].file is null"),
    ],
)
def test_comparison_detects_differences(change: dict[str, Any], problem: str) -> None:
    report = json.loads(to_json(a_report()))
    report["submissions"][0].update(change)
    assert wrong_with(report, "Report") == [problem]


def test_documented_values_match_the_code() -> None:
    assert words("Statuses") == {status.value for status in Status} | {NOT_JUDGED, REPAIRED}
    remarks = set(typing.get_args(typing.get_type_hints(CodeWarning)["kind"]))
    noted = {fault.ERROR_KIND}.union(*(said(each, NOTE) for each in (Property, SeedKind)))
    assert words("Notes") == remarks | noted
    ended_badly = {"crashed", "timed_out", "out_of_memory", *NO_VERDICT_KINDS}
    assert words("Errors") == said(SeedKind, r"\bErrorRecord\(\s*\"(\w+)\"") | ended_badly
    assert {row[0].strip("`") for row in table("Rungs")} == set(GUARANTEES)
    assert words("Kinds of seeds") == {kind.value for kind in SeedKind}
    used = {s["error"]["kind"] for s in json.loads(example())["submissions"] if s["error"]}
    assert used <= words("Errors")


NOTE = r"\bNote(?:Record)?\(\s*\"(\w+)\""


def said(of: type, pattern: str) -> set[str]:
    """What a pattern finds in the room in which a class is defined."""
    room = Path(inspect.getfile(of)).parent
    return {word for path in room.rglob("*.py") for word in re.findall(pattern, path.read_text())}


def test_the_exit_codes_are_those_of_the_code() -> None:
    passed = SubmissionRecord("a.py", "a", "linear_layer", "linear", 1, 1, "passed", 0)
    assert compute_exit_code(build_report([passed])) == 0
    assert compute_exit_code(a_report()) == 1
    assert {row[0] for row in table("Exit codes")} == {"0", "1", str(EXIT_ERROR)}
