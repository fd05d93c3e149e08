"""Gradescope's `results.json`, one for every student.

Source: https://gradescope-autograders.readthedocs.io/en/latest/specs/#output-format
"""

from typing import Any

import msgspec

from grader.course.export.gradebook import Exported, Gradebook, feedback, file_name, points
from grader.course.results import EXACT, Standing
from grader.report.records import PropertyRecord
from grader.report.render.sanitise import harmless, one_line


def render(book: Gradebook) -> Exported:
    """A file for every student; `score` is what counts, the tests say what was judged."""
    files = {
        file_name(student, ".json"): msgspec.json.format(
            msgspec.json.encode(results(standings)), indent=2
        )
        for student, standings in book.students.items()
    }
    return Exported(files)


def results(standings: list[Standing]) -> dict[str, Any]:
    """One student's results.json."""
    claims = [(each, claim) for each in standings for claim in each.record.properties]
    return {
        "score": points(standings),
        "execution_time": round(sum(each.record.seconds for each in standings)),
        "output": feedback(standings),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(*each, number) for number, each in enumerate(claims, start=1)],
        "extra_data": {
            each.exercise: {"status": each.status, "judged": each.judged, "attempt": each.attempt}
            for each in standings
        },
    }


def _test(standing: Standing, claim: PropertyRecord, number: int) -> dict[str, Any]:
    return {
        "name": one_line(claim.claim),
        "number": str(number),
        "score": round(claim.points, EXACT),
        "max_score": round(claim.max_points, EXACT),
        "status": "passed" if claim.status == "passed" else "failed",
        "output": harmless(claim.message),
        "tags": [standing.exercise, claim.group, claim.status],
        "visibility": "visible",
    }
