"""What everybody has: for each exercise the best of what stands, or what a person decided.

Pure functions of what a store holds under a run's name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from grader.course.store.records import Comment, GradedFile, Override
from grader.report.feedback import Feedback, redact_submission
from grader.report.records import SubmissionRecord

SCORE_DECIMALS = 6
"""decimals of a score, as in a report"""


@dataclass(frozen=True, slots=True)
class ExerciseResult:
    """One student's result in one exercise."""

    student: str
    name: str
    email: str
    handle: str
    exercise: str
    score: float
    """what counts: a person's decision if there is one, else what was judged"""
    max_score: float
    judged: float
    status: str
    attempt: int
    late: bool
    submitted: str | None
    record: SubmissionRecord
    override: Override | None = None
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """What another judging would change for a student."""

    student: str
    exercise: str
    before: float | None
    after: float | None
    """None where there is nothing to compare: the exercise was found only once"""
    overridden: bool
    """whether a person's decision stands, so that nothing changes for the student"""

    @property
    def gain(self) -> float:
        """Points more than before."""
        return round((self.after or 0.0) - (self.before or 0.0), SCORE_DECIMALS)


def compute_results(
    stored: Iterable[GradedFile],
    overrides: Mapping[tuple[str, str], Override] | None = None,
    comments: Iterable[Comment] = (),
) -> list[ExerciseResult]:
    """Everybody's results, by student and exercise."""
    best: dict[tuple[str, str], tuple[GradedFile, SubmissionRecord]] = {}
    listed = list(stored)
    alone = _find_only_exercise(listed)
    for each in listed:
        for record in each.records:
            key = (each.student, record.exercise or alone)
            if key not in best or _is_better(record, best[key][1]):
                best[key] = (each, record)
    # Who has an answer to some exercise has also files in which none was found: these are nothing.
    answered = {student for student, exercise in best if exercise}
    kept = {k: v for k, v in best.items() if k[1] or k[0] not in answered}
    most = {
        exercise: record.max_score
        for (_, exercise), (_, record) in best.items()
        if record.max_score
    }
    said = list(comments)
    return [
        _make_result(kept[key], key, most, (overrides or {}).get(key), said) for key in sorted(kept)
    ]


def _find_only_exercise(stored: Sequence[GradedFile]) -> str:
    """The only exercise that was answered, if so: then an unreadable file is no other."""
    found = {record.exercise for each in stored for record in each.records if record.exercise}
    return found.pop() if len(found) == 1 else ""


def _is_better(record: SubmissionRecord, than: SubmissionRecord) -> bool:
    """More points, or at least judged."""
    return (record.score, record.error is None) > (than.score, than.error is None)


def _make_result(
    best: tuple[GradedFile, SubmissionRecord],
    key: tuple[str, str],
    most: Mapping[str, float],
    decided: Override | None,
    said: Sequence[Comment],
) -> ExerciseResult:
    stored, record = best
    student, exercise = key
    counts = record.score if decided is None or decided.score is None else decided.score
    return ExerciseResult(
        student=student,
        name=stored.name,
        email=stored.email,
        handle=stored.handle,
        exercise=exercise,
        score=round(counts, SCORE_DECIMALS),
        max_score=record.max_score or most.get(exercise, 0.0),
        judged=record.score,
        status=record.status,
        attempt=stored.attempt,
        late=stored.late,
        submitted=stored.submitted,
        record=record,
        override=decided,
        comments=tuple(
            c.text for c in said if c.student == student and c.exercise in ("", exercise)
        ),
    )


def apply_feedback(result: ExerciseResult, feedback: Feedback) -> ExerciseResult:
    """What a student may be told of a result."""
    record = redact_submission(result.record, feedback)
    return replace(result, record=record, status=record.status)


def compare_results(
    before: Sequence[ExerciseResult], after: Sequence[ExerciseResult]
) -> list[ScoreChange]:
    """Whose judged points differ, those who lose most first."""
    old = {(each.student, each.exercise): each for each in before}
    new = {(each.student, each.exercise): each for each in after}
    found = [
        ScoreChange(
            *key,
            before=old[key].judged if key in old else None,
            after=new[key].judged if key in new else None,
            overridden=key in old and old[key].override is not None,
        )
        for key in sorted(old.keys() | new.keys())
    ]
    return sorted((c for c in found if c.gain), key=lambda c: (c.gain, c.student, c.exercise))
