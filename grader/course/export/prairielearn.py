"""PrairieLearn's `results.json` of an external grader, one for every student.

Source: https://docs.prairielearn.com/externalGrading/#grading-result
"""

from typing import Any

import msgspec

from grader.course.export.gradebook import (
    Exported,
    Gradebook,
    feedback,
    file_name,
    most,
    number,
    points,
)
from grader.course.results import EXACT, Standing
from grader.report.render.sanitise import harmless, one_line

LARGEST = 1_000_000
"""bytes; PrairieLearn takes 1 MB"""


def render(book: Gradebook) -> Exported:
    """A file for every student."""
    return Exported(
        {
            file_name(student, ".json"): _fitting(standings)
            for student, standings in book.students.items()
        }
    )


def _fitting(standings: list[Standing]) -> bytes:
    """The longest messages that fit."""
    for longest in (4000, 1000, 200, 0):
        text = msgspec.json.encode(results(standings, longest))
        if len(text) <= LARGEST:
            break
    return text


def results(standings: list[Standing], longest: int = 4000) -> dict[str, Any]:
    """One student's results.json. `score` is a share; points are those of claims.

    What could not be read is not gradable, and costs no attempt there, unless a person decided.
    """
    errors = [e.record.error.message for e in standings if e.record.error is not None]
    if errors and len(errors) == len(standings) and not points(standings):
        return {"gradable": False, "format_errors": [harmless(text) for text in errors]}
    top = most(standings)
    return {
        "gradable": True,
        "score": min(points(standings) / top, 1.0) if top else 0.0,
        "message": f"{number(points(standings))} of {number(top)} points",
        "output": feedback(standings),
        "tests": [
            {
                "name": one_line(claim.name),
                "description": one_line(claim.claim),
                "points": round(claim.points, EXACT),
                "max_points": round(claim.max_points, EXACT),
                "message": harmless(claim.message, longest) if longest else "",
            }
            for each in standings
            for claim in each.record.properties
        ],
    }
