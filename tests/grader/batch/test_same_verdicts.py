"""A sandbox changes no record: every known answer, in a child of the fork server and here.

But for its limits, which there are none of here: claims on which an answer ran into one are left
out, and of the others what is said may then be less.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, load_bank, write_answer
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.worker_pool import Sandbox
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.properties.violations.violation import Status

PATIENT = {"total_s": 1200.0, "cpu_s": 600}
"""A slow answer is asked less on a slow machine; here it has time for all of it."""
LIMITS = (Status.TIMED_OUT, Status.OUT_OF_MEMORY)
ANSWERS = [
    pytest.param(exercise, answer, id=f"{exercise.slug}/{answer.name}")
    for exercise in ALL
    for answer in load_bank(exercise)
]
SAMPLE = [each for each in ANSWERS if each.values[0] is BY_SLUG["linear_layer"]][1::4]


def judged(place: Sandbox, exercise: Exercise, path: Path) -> list[SubmissionRecord]:
    [handed_in] = find_submissions([str(path)])
    settings = Settings(exercise, limit_overrides=PATIENT)
    return [replace(r, seconds=0.0) for r in grade_file_or_raise(place, handed_in, settings)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(("exercise", "answer"), ANSWERS, SAMPLE)
def test_every_answer_gets_the_same_record(
    server: ServerHandle, exercise: Exercise, answer: Answer, tmp_path: Path
) -> None:
    path = write_answer(answer, tmp_path)
    with UnconfinedSandbox("for a test") as here:
        pairs = zip(judged(server, exercise, path), judged(here, exercise, path), strict=True)
    for confined, free in pairs:
        limited = {claim.name for claim in confined.properties if claim.status in LIMITS}
        assert ends(confined, limited) == ends(free, limited)
        assert limited or confined == free


def ends(record: SubmissionRecord, without: set[str]) -> list[tuple[str, str, float]]:
    """How every claim ended, but for these."""
    return [(p.name, p.status, p.points) for p in record.properties if p.name not in without]
