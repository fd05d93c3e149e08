"""Write Gradescope's `results.json`, one for every student.

Source: https://gradescope-autograders.readthedocs.io/en/latest/specs/#output-format
"""

from typing import Any

import msgspec

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    format_feedback,
    make_file_name,
    round_properties,
    sum_points,
)
from headcheck.grader.course.marks import MarkedCriterion, describe_mark, name_mark
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.records import PropertyRecord
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.rounding import round_sum
from headcheck.properties.violations.violation import head_check


def render(book: Gradebook) -> ExportedFiles:
    """Return a file for every student; `score` includes overrides, and the tests are as graded."""
    files: dict[str, bytes] = {}
    for student, results in book.students.items():
        encoded = msgspec.json.encode(make_results(results))
        files[make_file_name(student, ".json")] = msgspec.json.format(encoded, indent=2)
    return ExportedFiles(files)


def make_results(results: list[ExerciseResult]) -> dict[str, Any]:
    """Return one student's results.json."""
    properties = [(each, p) for each in results for p in round_properties(each.record)]
    return {
        "score": sum_points(results),
        "execution_time": round(sum(each.record.seconds for each in results)),
        "output": format_feedback(results),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            *(_make_test(*each, number) for number, each in enumerate(properties, start=1)),
            *(_make_mark(result, each) for result in results for each in result.criteria),
        ],
        "extra_data": {each.exercise: _describe_score(each) for each in results},
    }


def _describe_score(result: ExerciseResult) -> dict[str, Any]:
    return {
        "status": result.status,
        "judged": result.judged,
        "marked": result.marked,
        "penalty": result.penalty,
        "attempt": result.attempt,
    }


def _make_mark(result: ExerciseResult, each: MarkedCriterion) -> dict[str, Any]:
    """Return a criterion as a test, without a score if there is no mark."""
    points = {"score": round_sum(each.earned), "max_score": round_sum(each.most)}
    return {
        "name": name_mark(each),
        "output": describe_mark(each),
        "tags": [result.exercise, "marked"],
        "visibility": "visible",
        **(points if each.points is not None else {}),
    }


def _make_test(result: ExerciseResult, p: PropertyRecord, number: int) -> dict[str, Any]:
    return {
        "name": sanitise_line(head_check(p.status, p.claim)),
        "number": str(number),
        "score": p.points,
        "max_score": p.max_points,
        "status": "passed" if p.status == "passed" else "failed",
        "output": sanitise(p.message),
        "tags": [result.exercise, p.group, p.status],
        "visibility": "visible",
    }
