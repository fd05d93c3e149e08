"""Write the result of GitHub Classroom's autograding step, one file for every student.

The reporter adds up the scores of the tests, so an overridden result is a single test with that
score. Source: https://github.com/classroom-resources/autograding-grading-reporter
"""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    make_file_name,
    sum_max_points,
)
from headcheck.grader.course.marks import describe_mark, name_mark
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.report.render.github import format_command
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.rounding import HUNDREDTH, round_sum, share_out
from headcheck.properties.violations.violation import head_check

VERSION = 1
STATUSES = {"passed": "pass", "failed": "fail", "not_tried": "fail", "not_asked": "fail"}
"""the reporter's word for a property's status; any other status is an error"""


def render(book: Gradebook) -> ExportedFiles:
    """Return `<student>.result`, the step's output, and `<student>.annotations`, its commands."""
    files: dict[str, bytes] = {}
    for student, results in book.students.items():
        encoded = base64.b64encode(msgspec.json.encode(make_result(results)))
        files[make_file_name(student, ".result")] = encoded
        text = "".join(f"{line}\n" for line in format_annotations(results))
        files[make_file_name(student, ".annotations")] = text.encode()
    return ExportedFiles(files)


def make_result(results: list[ExerciseResult]) -> dict[str, Any]:
    """Return one student's result."""
    tests = [test for each in results for test in _make_tests(each)]
    statuses = {test["status"] for test in tests}
    worst = next((s for s in ("error", "fail") if s in statuses), "pass")
    most = sum_max_points(results)
    return {"version": VERSION, "status": worst, "max_score": most, "tests": tests}


def _make_tests(result: ExerciseResult) -> Iterator[dict[str, Any]]:
    if result.override is not None or not result.record.properties:
        full = result.score >= result.max_score
        error = result.record.error
        status = "pass" if full else "error" if error and not result.override else "fail"
        score = round_sum(result.score)
        test = _make_test(result.record, result.exercise or "no exercise", status, score)
        yield test | {
            "message": sanitise(error.message) if error else "",
            "line_no": (error.line or 0) if error else 0,
            "duration": round(result.record.seconds * 1000),
        }
        return
    record = result.record
    # The reporter adds up what the tests earned: the score, which is rounded.
    shown = [p.points for p in record.properties]
    hidden = max(record.score - sum(shown), 0.0) if record.hidden else 0.0
    judged = share_out([*shown, hidden], result.judged)
    earned = share_out([*judged, *(each.earned for each in result.criteria)], result.score)
    shares, [rest, *marks] = earned[: len(shown)], earned[len(shown) :]
    for p, points in zip(record.properties, shares, strict=True):
        status = STATUSES.get(p.status, "error")
        name = sanitise_line(head_check(p.status, p.claim))
        test = _make_test(record, name, status, points)
        yield test | {"message": sanitise(p.message), "test_code": p.name}
    if record.hidden:
        yield _make_hidden_test(record, rest)
    for each, points in zip(result.criteria, marks, strict=True):
        status = "pass" if each.earned >= each.most else "fail"
        test = _make_test(record, name_mark(each), status, points)
        yield test | {"message": describe_mark(each)}


def _make_hidden_test(record: SubmissionRecord, got: float) -> dict[str, Any]:
    """Return one test for all hidden properties, so that the reporter's sum is right."""
    most = record.max_score - sum(p.max_points for p in record.properties)
    name = f"{record.hidden} hidden check{'s' * (record.hidden > 1)}"
    status = "pass" if record.status == "passed" or most - got < HUNDREDTH else "fail"
    return _make_test(record, name, status, got)


def _make_test(record: SubmissionRecord, name: str, status: str, score: float) -> dict[str, Any]:
    return {
        "name": name,
        "status": status,
        "score": score,
        "message": "",
        "test_code": "",
        "filename": sanitise_line(record.file),
        "line_no": 0,
        "duration": 0,
    }


def format_annotations(results: list[ExerciseResult]) -> Iterator[str]:
    """Yield workflow commands that display mistakes next to their lines, and what is taken off."""
    for each in results:
        if each.explanation:
            yield format_command("notice", each.explanation, file=each.record.file)
        error = each.record.error
        messages = [(found.sentence, found.line, found.cell) for found in each.record.diagnosis]
        messages += [(error.message, error.line, error.cell)] if error else []
        for text, line, cell in messages:
            # A line in a notebook's cell is not a line of its file.
            at = {"line": str(line)} if line and cell is None else {}
            yield format_command("error", text, file=each.record.file, **at)
