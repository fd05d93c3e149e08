"""Write PrairieLearn's `results.json` of an external grader, one for every student.

Source: https://docs.prairielearn.com/externalGrading/#grading-result
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    format_feedback,
    format_number,
    make_file_name,
    round_properties,
    sum_max_points,
    sum_points,
)
from headcheck.grader.course.marks import describe_mark, name_mark
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.rounding import round_sum
from headcheck.properties.violations.violation import head_check

MAX_BYTES = 1_000_000
"""bytes; PrairieLearn accepts 1 MB"""


def render(book: Gradebook) -> ExportedFiles:
    """Return a file for every student."""
    encoded = {student: _encode_within_limit(each) for student, each in book.students.items()}
    files = {make_file_name(s, ".json"): data for s, data in encoded.items()}
    return ExportedFiles(files, remarks=tuple(_list_cut_bonuses(book)))


def _list_cut_bonuses(book: Gradebook) -> Iterator[str]:
    """Yield a remark for each student with more than all points: a score is a share up to 1."""
    for student, results in book.students.items():
        if sum_points(results) > sum_max_points(results):
            yield f"{sanitise_line(student)} has more than all points, and gets all points"


def _encode_within_limit(results: list[ExerciseResult]) -> bytes:
    """Encode results with the longest messages that fit."""
    for max_message in (4000, 1000, 200, 0):
        text = msgspec.json.encode(make_results(results, max_message))
        if len(text) <= MAX_BYTES:
            break
    return text


def _summarise(results: list[ExerciseResult]) -> str:
    points = f"{format_number(sum_points(results))} of {format_number(sum_max_points(results))}"
    late = ", ".join(each.calculation for each in results if each.calculation)
    return f"{points} points{f' ({late})' if late else ''}"


def make_results(results: list[ExerciseResult], max_message: int = 4000) -> dict[str, Any]:
    """Return one student's results.json. `score` is a share; points are those of properties.

    An unreadable file is marked as not gradable, which costs no attempt in PrairieLearn, unless
    there is an override.
    """
    errors = [e.record.error.message for e in results if e.record.error is not None]
    if errors and len(errors) == len(results) and not sum_points(results):
        return {"gradable": False, "format_errors": [sanitise(text) for text in errors]}
    top = sum_max_points(results)
    return {
        "gradable": True,
        "score": min(sum_points(results) / top, 1.0) if top else 0.0,
        "message": _summarise(results),
        "output": format_feedback(results),
        "tests": [
            {
                "name": name,
                "description": description,
                "points": points,
                "max_points": most,
                "message": sanitise(message, max_message) if max_message else "",
            }
            for name, description, points, most, message in _list_tests(results)
        ],
    }


def _list_tests(results: list[ExerciseResult]) -> Iterator[tuple[str, str, float, float, str]]:
    """Yield name, description, points, maximum and message of every property, then of the marks."""
    for p in (p for each in results for p in round_properties(each.record)):
        claim = sanitise_line(head_check(p.status, p.claim))
        yield sanitise_line(p.name), claim, p.points, p.max_points, p.message
    for mark in (mark for each in results for mark in each.criteria):
        points, most = round_sum(mark.earned), round_sum(mark.most)
        yield mark.criterion.name, name_mark(mark), points, most, describe_mark(mark)
