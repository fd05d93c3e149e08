"""Students of the roster who handed in nothing: a result of 0 points in each exercise of a run."""

from collections.abc import Iterable, Sequence

from headcheck.grader.course.intake.roster import Roster, Student
from headcheck.grader.course.results import ExerciseResult, rank_result
from headcheck.grader.report.records import NOT_HANDED_IN, ErrorRecord, SubmissionRecord

REASON = ErrorRecord(NOT_HANDED_IN, "Nothing was handed in.")


def list_absent(results: Iterable[ExerciseResult], roster: Roster) -> tuple[Student, ...]:
    """Return the students of a roster without a result, their own or their group's."""
    present = {
        student.id
        for each in results
        for student in roster.find_all(each.student, each.email, each.handle, name=each.name)
    }
    return tuple(each for each in roster.students if each.id not in present)


def add_absent(results: Sequence[ExerciseResult], roster: Roster) -> list[ExerciseResult]:
    """Return the results, in their order, with those of students who handed in nothing."""
    maxima: dict[str, float] = {}
    for each in results:
        maxima[each.exercise] = max(maxima.get(each.exercise, 0.0), each.max_score)
    asked = {slug: most for slug, most in maxima.items() if slug} or maxima
    absent = [
        _make_result(student, slug, most)
        for student in list_absent(results, roster)
        for slug, most in asked.items()
    ]
    return sorted([*results, *absent], key=rank_result)


def _make_result(student: Student, exercise: str, most: float) -> ExerciseResult:
    record = SubmissionRecord(
        file="",
        student=student.id,
        exercise=exercise or None,
        name=None,
        score=0.0,
        max_score=most,
        status=NOT_HANDED_IN,
        seconds=0.0,
        error=REASON,
    )
    return ExerciseResult(
        student=student.id,
        name=student.display_name,
        email=student.email,
        handle=next(iter(student.handles), student.id),
        exercise=exercise,
        score=0.0,
        max_score=most,
        judged=0.0,
        status=NOT_HANDED_IN,
        attempt=0,
        late=False,
        submitted=None,
        record=record,
    )
