"""Gradescope's `results.json`, one for every student.

Source: https://gradescope-autograders.readthedocs.io/en/latest/specs/#output-format
"""

from typing import Any

import msgspec

from grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    format_feedback,
    make_file_name,
    sum_points,
)
from grader.course.results import SCORE_DECIMALS, ExerciseResult
from grader.report.records import PropertyRecord
from grader.report.render.sanitise import sanitise, sanitise_line


def render(book: Gradebook) -> ExportedFiles:
    """A file for every student; `score` is what counts, the tests say what was judged."""
    files = {
        make_file_name(student, ".json"): msgspec.json.format(
            msgspec.json.encode(make_results(results)), indent=2
        )
        for student, results in book.students.items()
    }
    return ExportedFiles(files)


def make_results(results: list[ExerciseResult]) -> dict[str, Any]:
    """One student's results.json."""
    claims = [
        (each, property_record) for each in results for property_record in each.record.properties
    ]
    return {
        "score": sum_points(results),
        "execution_time": round(sum(each.record.seconds for each in results)),
        "output": format_feedback(results),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_make_test(*each, number) for number, each in enumerate(claims, start=1)],
        "extra_data": {
            each.exercise: {"status": each.status, "judged": each.judged, "attempt": each.attempt}
            for each in results
        },
    }


def _make_test(
    result: ExerciseResult, property_record: PropertyRecord, number: int
) -> dict[str, Any]:
    return {
        "name": sanitise_line(property_record.claim),
        "number": str(number),
        "score": round(property_record.points, SCORE_DECIMALS),
        "max_score": round(property_record.max_points, SCORE_DECIMALS),
        "status": "passed" if property_record.status == "passed" else "failed",
        "output": sanitise(property_record.message),
        "tags": [result.exercise, property_record.group, property_record.status],
        "visibility": "visible",
    }
