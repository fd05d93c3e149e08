"""GitHub Classroom's result of an autograding step, one for every student.

The reporter adds up the scores of the tests, so where a person decided there is one test with
that score. Source: https://github.com/classroom-resources/autograding-grading-reporter
"""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from grader.course.export.gradebook import ExportedFiles, Gradebook, make_file_name, sum_max_points
from grader.course.results import SCORE_DECIMALS, ExerciseResult
from grader.report.render.github import format_command
from grader.report.render.sanitise import sanitise, sanitise_line

VERSION = 1
STATUSES = {"passed": "pass", "failed": "fail", "not_tried": "fail"}


def render(book: Gradebook) -> ExportedFiles:
    """`<student>.result` is the step's output `result`, `<student>.annotations` are commands."""
    files: dict[str, bytes] = {}
    for student, results in book.students.items():
        encoded = base64.b64encode(msgspec.json.encode(make_result(results)))
        files[make_file_name(student, ".result")] = encoded
        text = "".join(f"{line}\n" for line in format_annotations(results))
        files[make_file_name(student, ".annotations")] = text.encode()
    return ExportedFiles(files)


def make_result(results: list[ExerciseResult]) -> dict[str, Any]:
    """One student's result."""
    tests = [test for each in results for test in _make_tests(each)]
    statuses = {test["status"] for test in tests}
    worst = next((s for s in ("error", "fail") if s in statuses), "pass")
    return {
        "version": VERSION,
        "status": worst,
        "max_score": sum_max_points(results),
        "tests": tests,
    }


def _make_tests(result: ExerciseResult) -> Iterator[dict[str, Any]]:
    if result.override is not None or not result.record.properties:
        full = result.score >= result.max_score
        error = result.record.error
        yield {
            "name": result.exercise or "no exercise",
            "status": "pass" if full else "error" if error and not result.override else "fail",
            "score": result.score,
            "message": sanitise(error.message) if error else "",
            "test_code": "",
            "filename": sanitise_line(result.record.file),
            "line_no": (error.line or 0) if error else 0,
            "duration": round(result.record.seconds * 1000),
        }
        return
    for property_record in result.record.properties:
        yield {
            "name": sanitise_line(property_record.claim),
            "status": STATUSES.get(property_record.status, "error"),
            "score": property_record.points,
            "message": sanitise(property_record.message),
            "test_code": property_record.name,
            "filename": sanitise_line(result.record.file),
            "line_no": 0,
            "duration": 0,
        }
    if result.record.hidden:
        yield _make_hidden_test(result)


def _make_hidden_test(result: ExerciseResult) -> dict[str, Any]:
    """What the claims that are not shown give together: the reporter adds up what it is told."""
    record = result.record
    got = record.score - sum(property_record.points for property_record in record.properties)
    most = record.max_score - sum(
        property_record.max_points for property_record in record.properties
    )
    return {
        "name": f"{record.hidden} hidden check{'s' * (record.hidden > 1)}",
        "status": "pass" if got >= most - 10**-SCORE_DECIMALS else "fail",
        "score": round(got, SCORE_DECIMALS),
        "message": "",
        "test_code": "",
        "filename": sanitise_line(record.file),
        "line_no": 0,
        "duration": 0,
    }


def format_annotations(results: list[ExerciseResult]) -> Iterator[str]:
    """Workflow commands that show the mistakes found beside their lines."""
    for each in results:
        error = each.record.error
        said = [(found.sentence, found.line, found.cell) for found in each.record.diagnosis]
        said += [(error.message, error.line, error.cell)] if error else []
        for text, line, cell in said:
            # A line of a notebook's cell is no line of its file.
            at = {"line": str(line)} if line and cell is None else {}
            yield format_command("error", text, file=each.record.file, **at)
