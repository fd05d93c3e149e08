"""What judges a file by the names of its classes."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.limits import Limits
from tests.grader.grading.open_classes import HEAD, Grade

if TYPE_CHECKING:
    from tests.grader.conftest import SandboxDriver


@pytest.fixture
def grade(sandbox: "SandboxDriver", tmp_path: Path) -> Grade:
    """Grades a file; the records by the names that were judged."""

    def grade_source(
        source: str, slug: str | None = None, settings: Settings | None = None, **limits: float
    ) -> dict[str | None, SubmissionRecord]:
        path = tmp_path / "ada.py"
        path.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")
        exercise = BY_SLUG[slug] if slug else None
        settings = settings or Settings(exercise=exercise, limits=Limits().with_overrides(limits))
        [handed_in] = find_submissions([str(path)])
        records = grade_file_or_raise(sandbox.server, handed_in, settings)
        return {record.name: record for record in records}

    return grade_source
