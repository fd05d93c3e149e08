"""PrairieLearn's `results.json` of an external grader, one for every student.

Source: https://docs.prairielearn.com/externalGrading/#grading-result
"""

from typing import Any

import msgspec

from grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    format_feedback,
    format_number,
    make_file_name,
    sum_max_points,
    sum_points,
)
from grader.course.results import SCORE_DECIMALS, ExerciseResult
from grader.report.render.sanitise import sanitise, sanitise_line

MAX_BYTES = 1_000_000
"""bytes; PrairieLearn takes 1 MB"""


def render(book: Gradebook) -> ExportedFiles:
    """A file for every student."""
    return ExportedFiles(
        {
            make_file_name(student, ".json"): _encode_within_limit(results)
            for student, results in book.students.items()
        }
    )


def _encode_within_limit(results: list[ExerciseResult]) -> bytes:
    """The longest messages that fit."""
    for max_message in (4000, 1000, 200, 0):
        text = msgspec.json.encode(make_results(results, max_message))
        if len(text) <= MAX_BYTES:
            break
    return text


def make_results(results: list[ExerciseResult], max_message: int = 4000) -> dict[str, Any]:
    """One student's results.json. `score` is a share; points are those of claims.

    What could not be read is not gradable, and costs no attempt there, unless a person decided.
    """
    errors = [e.record.error.message for e in results if e.record.error is not None]
    if errors and len(errors) == len(results) and not sum_points(results):
        return {"gradable": False, "format_errors": [sanitise(text) for text in errors]}
    top = sum_max_points(results)
    return {
        "gradable": True,
        "score": min(sum_points(results) / top, 1.0) if top else 0.0,
        "message": f"{format_number(sum_points(results))} of {format_number(top)} points",
        "output": format_feedback(results),
        "tests": [
            {
                "name": sanitise_line(property_record.name),
                "description": sanitise_line(property_record.claim),
                "points": round(property_record.points, SCORE_DECIMALS),
                "max_points": round(property_record.max_points, SCORE_DECIMALS),
                "message": sanitise(property_record.message, max_message) if max_message else "",
            }
            for each in results
            for property_record in each.record.properties
        ],
    }
