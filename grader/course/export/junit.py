"""JUnit XML: a suite for every student and exercise, a case for every claim.

Source: https://github.com/testmoapp/junitxml
"""

import re
from collections import Counter
from xml.etree import ElementTree as ET

from grader.course.export.gradebook import Exported, Gradebook, number
from grader.course.results import Standing
from grader.report.records import PropertyRecord
from grader.report.render.sanitise import harmless, one_line

UNFIT = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""what XML 1.0 has no way to write"""
ENDS = {"passed": "", "failed": "failure", "not_tried": "skipped"}
"""the element for how a claim ended; all other ends are errors"""


def render(book: Gradebook) -> Exported:
    """One file."""
    root = ET.Element("testsuites", name=_text(book.run))
    counts: Counter[str] = Counter()
    for each in book.standings:
        suite, found = _suite(each)
        root.append(suite)
        counts.update(found)
    _count(root, counts, sum(each.record.seconds for each in book.standings))
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'
    return Exported({"junit.xml": text.encode()})


def _suite(standing: Standing) -> tuple[ET.Element, Counter[str]]:
    record = standing.record
    name = f"{standing.student} {standing.exercise}".rstrip()
    suite = ET.Element("testsuite", name=_text(name))
    told = ET.SubElement(suite, "properties")
    about = {
        "student": standing.student,
        "name": standing.name,
        "score": number(standing.score),
        "max_score": number(standing.max_score),
        "file": record.file,
    }
    for key, value in about.items():
        ET.SubElement(told, "property", name=key, value=_text(value))
    counts: Counter[str] = Counter(tests=0)
    if not record.properties:
        case = ET.SubElement(suite, "testcase", classname=_text(name), name="it can be judged")
        message = record.error.message if record.error else standing.status
        counts.update(tests=1, errors=1)
        _end(case, "error", standing.status, message)
    for claim in record.properties:
        counts.update(_case(suite, name, claim))
    _count(suite, counts, record.seconds)
    return suite, counts


def _case(suite: ET.Element, name: str, claim: PropertyRecord) -> dict[str, int]:
    case = ET.SubElement(
        suite, "testcase", classname=_text(name), name=_text(claim.claim), time="0"
    )
    end = ENDS.get(claim.status, "error")
    if end:
        _end(case, end, claim.status, claim.message)
    counted = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    return {"tests": 1, counted[end]: 1} if end else {"tests": 1}


def _end(case: ET.Element, end: str, status: str, message: str) -> None:
    first = message.partition("\n")[0]
    element = ET.SubElement(case, end, message=_text(one_line(first)))
    if end != "skipped":
        element.set("type", _text(status))
        element.text = UNFIT.sub("\ufffd", harmless(message))


def _count(element: ET.Element, counts: Counter[str], seconds: float) -> None:
    for what in ("tests", "failures", "errors", "skipped"):
        element.set(what, str(counts[what]))
    element.set("time", f"{seconds:.3f}")


def _text(text: str) -> str:
    return UNFIT.sub("\ufffd", one_line(text))
