"""Write JUnit XML: a suite for every student and exercise, a case for every property.

Source: https://github.com/testmoapp/junitxml
"""

import re
from collections import Counter
from xml.etree import ElementTree as ET

from headcheck.grader.course.export.gradebook import ExportedFiles, Gradebook, format_number
from headcheck.grader.course.marks import format_mark
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.records import PropertyRecord
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line

INVALID_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""characters that XML 1.0 cannot represent"""
OUTCOME_ELEMENTS = {
    "passed": "",
    "failed": "failure",
    "not_tried": "skipped",
    "not_asked": "skipped",
}
"""the element for a property's status; any other status is an error"""


def render(book: Gradebook) -> ExportedFiles:
    """Return one file."""
    root = ET.Element("testsuites", name=_clean_text(book.run))
    counts: Counter[str] = Counter()
    for each in book.results:
        suite, found = _make_suite(each)
        root.append(suite)
        counts.update(found)
    _set_counts(root, counts, sum(each.record.seconds for each in book.results))
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'
    return ExportedFiles({"junit.xml": text.encode()})


def _make_suite(result: ExerciseResult) -> tuple[ET.Element, Counter[str]]:
    record = result.record
    name = f"{result.student} {result.exercise}".rstrip()
    suite = ET.Element("testsuite", name=_clean_text(name))
    properties = ET.SubElement(suite, "properties")
    about = {
        "student": result.student,
        "name": result.name,
        "score": format_number(result.score) if result.is_judged else "",
        "max_score": format_number(result.max_score),
        "file": record.file,
        **{f"mark {each.criterion.name}": format_mark(each) for each in result.criteria},
    }
    about |= {"late": result.calculation} if result.calculation else {}
    about |= {"group": result.group} if result.group else {}
    for key, value in about.items():
        ET.SubElement(properties, "property", name=key, value=_clean_text(value))
    counts: Counter[str] = Counter(tests=0)
    if not record.properties:
        case = ET.SubElement(
            suite, "testcase", classname=_clean_text(name), name="it can be judged"
        )
        message = record.error.message if record.error else result.status
        outcome, counted = ("skipped",) * 2 if result.is_absent else ("error", "errors")
        counts.update({"tests": 1, counted: 1})
        _add_outcome(case, outcome, result.status, message)
    for each in record.properties:
        counts.update(_add_case(suite, name, each))
    _set_counts(suite, counts, record.seconds)
    return suite, counts


def _add_case(suite: ET.Element, name: str, p: PropertyRecord) -> dict[str, int]:
    attributes = {"classname": _clean_text(name), "name": _clean_text(p.claim), "time": "0"}
    case = ET.SubElement(suite, "testcase", attributes)
    outcome = OUTCOME_ELEMENTS.get(p.status, "error")
    if outcome:
        _add_outcome(case, outcome, p.status, p.message)
    counted = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    return {"tests": 1, counted[outcome]: 1} if outcome else {"tests": 1}


def _add_outcome(case: ET.Element, outcome: str, status: str, message: str) -> None:
    first = message.partition("\n")[0]
    element = ET.SubElement(case, outcome, message=_clean_text(sanitise_line(first)))
    if outcome != "skipped":
        element.set("type", _clean_text(status))
        element.text = INVALID_XML.sub("\ufffd", sanitise(message))


def _set_counts(element: ET.Element, counts: Counter[str], seconds: float) -> None:
    for name in ("tests", "failures", "errors", "skipped"):
        element.set(name, str(counts[name]))
    element.set("time", f"{seconds:.3f}")


def _clean_text(text: str) -> str:
    return INVALID_XML.sub("\ufffd", sanitise_line(text))
