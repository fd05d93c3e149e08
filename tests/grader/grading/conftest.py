"""What judges a file by the names of its classes."""

import textwrap

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.limits import Limits
from tests.grader.conftest import GradeAll
from tests.grader.grading.open_classes import HEAD, Grade


@pytest.fixture
def grade(grade_all: GradeAll) -> Grade:
    """Grades a file; the records by the names that were judged."""

    def grade_source(
        source: str, slug: str | None = None, settings: Settings | None = None, **limits: float
    ) -> dict[str | None, SubmissionRecord]:
        exercise = BY_SLUG[slug] if slug else None
        settings = settings or Settings(exercise=exercise, limits=Limits().with_overrides(limits))
        records = grade_all(HEAD + textwrap.dedent(source), settings)
        return {record.name: record for record in records}

    return grade_source
