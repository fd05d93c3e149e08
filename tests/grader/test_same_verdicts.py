"""A sandbox changes no record: every known answer, in a child of the fork server and here."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exercises import ALL, Exercise
from grader.grading import Settings, grade
from grader.report import SubmissionRecord
from grader.sandbox.process import Server
from grader.submission import find
from grader.unconfined import Unconfined
from grader.workers import Place

ANSWERS = [
    pytest.param(
        exercise,
        path,
        id=f"{exercise.slug}/{path.stem}",
        marks=() if exercise.slug == "linear_layer" else pytest.mark.deep,
    )
    for exercise in ALL
    for path in sorted((exercise.folder / "answers").glob("*/*.py"))
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def judged(place: Place, exercise: Exercise, path: Path) -> list[SubmissionRecord]:
    [handed_in] = find([str(path)])
    return [replace(r, seconds=0.0) for r in grade(place, handed_in, Settings(exercise))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("exercise", "path"), ANSWERS)
def test_every_answer_gets_the_same_record(server: Server, exercise: Exercise, path: Path) -> None:
    with Unconfined("for a test") as here:
        assert judged(server, exercise, path) == judged(here, exercise, path)
