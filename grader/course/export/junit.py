"""JUnit XML: a suite for every student and exercise, a case for every claim.

Source: https://github.com/testmoapp/junitxml
"""

import re
from collections import Counter
from xml.etree import ElementTree as ET

from grader.course.export.gradebook import ExportedFiles, Gradebook, format_number
from grader.course.results import ExerciseResult
from grader.report.records import PropertyRecord
from grader.report.render.sanitise import sanitise, sanitise_line

INVALID_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""what XML 1.0 has no way to write"""
OUTCOME_ELEMENTS = {"passed": "", "failed": "failure", "not_tried": "skipped"}
"""the element for how a claim ended; all other ends are errors"""


def render(book: Gradebook) -> ExportedFiles:
    """One file."""
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
    told = ET.SubElement(suite, "properties")
    about = {
        "student": result.student,
        "name": result.name,
        "score": format_number(result.score),
        "max_score": format_number(result.max_score),
        "file": record.file,
    }
    for key, value in about.items():
        ET.SubElement(told, "property", name=key, value=_clean_text(value))
    counts: Counter[str] = Counter(tests=0)
    if not record.properties:
        case = ET.SubElement(
            suite, "testcase", classname=_clean_text(name), name="it can be judged"
        )
        message = record.error.message if record.error else result.status
        counts.update(tests=1, errors=1)
        _add_outcome(case, "error", result.status, message)
    for property_record in record.properties:
        counts.update(_add_case(suite, name, property_record))
    _set_counts(suite, counts, record.seconds)
    return suite, counts


def _add_case(suite: ET.Element, name: str, property_record: PropertyRecord) -> dict[str, int]:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_clean_text(name),
        name=_clean_text(property_record.claim),
        time="0",
    )
    end = OUTCOME_ELEMENTS.get(property_record.status, "error")
    if end:
        _add_outcome(case, end, property_record.status, property_record.message)
    counted = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    return {"tests": 1, counted[end]: 1} if end else {"tests": 1}


def _add_outcome(case: ET.Element, end: str, status: str, message: str) -> None:
    first = message.partition("\n")[0]
    element = ET.SubElement(case, end, message=_clean_text(sanitise_line(first)))
    if end != "skipped":
        element.set("type", _clean_text(status))
        element.text = INVALID_XML.sub("\ufffd", sanitise(message))


def _set_counts(element: ET.Element, counts: Counter[str], seconds: float) -> None:
    for what in ("tests", "failures", "errors", "skipped"):
        element.set(what, str(counts[what]))
    element.set("time", f"{seconds:.3f}")


def _clean_text(text: str) -> str:
    return INVALID_XML.sub("\ufffd", sanitise_line(text))
