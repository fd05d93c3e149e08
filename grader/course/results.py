"""Each student's result in each exercise: the best current verdict, or an instructor's override.

Pure functions of the results that a store holds under a run's name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.grader.course.marks import NO_MARKING, MarkedCriterion, Marking, add_marks
from headcheck.grader.course.store.records import Comment, GradedFile, Override
from headcheck.grader.report.collation import collate
from headcheck.grader.report.feedback import Feedback, redact_submission
from headcheck.grader.report.records import NOT_JUDGED, SubmissionRecord
from headcheck.grader.report.render.sanitise import sanitise_line
from headcheck.grader.report.render.text import align_columns
from headcheck.grader.report.rounding import (
    DECIMALS,
    HUNDREDTH,
    format_number,
    round_points,
    round_sum,
)

CHANGES_HEADER = ("student", "exercise", "before", "after", "change", "")


@dataclass(frozen=True, slots=True)
class ExerciseResult:
    """One student's result in one exercise."""

    student: str
    name: str
    email: str
    handle: str
    exercise: str
    score: float
    """the score that counts: the override if there is one, else what was earned"""
    max_score: float
    judged: float
    """the automatic points"""
    status: str
    attempt: int
    late: bool
    submitted: str | None
    record: SubmissionRecord
    override: Override | None = None
    comments: tuple[str, ...] = ()
    criteria: tuple[MarkedCriterion, ...] = ()
    """what people mark by hand"""
    marked: float = 0.0
    """what the marks add to the automatic points"""

    @property
    def earned(self) -> float:
        """The score before any override: automatic points and marks."""
        return round_sum(self.judged + self.marked)

    @property
    def is_judged(self) -> bool:
        """Whether there is a verdict or a decision, and so a score."""
        return self.override is not None or self.status != NOT_JUDGED


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """How a student's score differs after grading again."""

    student: str
    exercise: str
    before: float | None
    after: float | None
    """None if only one of the two gradings has the exercise, so that there is nothing to compare"""
    overridden: bool
    """whether an override is in force, so that nothing changes for the student"""
    maxima: tuple[float, float] | None = None
    """the maximum points before and after, if they differ; then shares of the maxima are compared
    """

    @property
    def gain(self) -> float:
        """The gain in points, or in percent if the maxima differ; negative for a loss."""
        before, after = self.before or 0.0, self.after or 0.0
        if self.maxima is None:
            return round(after - before, DECIMALS)
        then, now = self.maxima
        gained = after / now - before / then
        # What rounding to hundredths of a point alone can do is no change.
        noise = HUNDREDTH / 2 * (1 / then + 1 / now)
        return round(100 * gained, DECIMALS) if abs(gained) > noise else 0.0


def compute_results(
    stored: Iterable[GradedFile],
    overrides: Mapping[tuple[str, str], Override] | None = None,
    comments: Iterable[Comment] = (),
    marking: Marking = NO_MARKING,
) -> list[ExerciseResult]:
    """Return all results, sorted by name, then by id and exercise."""
    best: dict[tuple[str, str], tuple[GradedFile, SubmissionRecord]] = {}
    graded_files = list(stored)
    only = _find_only_exercise(graded_files)
    for each in graded_files:
        for record in each.records:
            key = (each.student, record.exercise or only)
            if key not in best or _is_better(record, best[key][1]):
                best[key] = (each, record)
    # Files without any exercise count only for students who answered none.
    answered = {student for student, exercise in best if exercise}
    kept = {k: v for k, v in best.items() if k[1] or k[0] not in answered}
    max_scores = {slug: r.max_score for (_, slug), (_, r) in best.items() if r.max_score}
    said = list(comments)
    return [
        _make_result(
            kept[key],
            key,
            max_scores,
            (overrides or {}).get(key),
            said,
            marking.list_criteria(*key),
        )
        for key in sorted(kept, key=lambda key: _rank_result(kept[key][0], key[1]))
    ]


def _find_only_exercise(stored: Sequence[GradedFile]) -> str:
    """Return the exercise if all answers are to one; unreadable files then count for it."""
    slugs = {record.exercise for each in stored for record in each.records if record.exercise}
    return slugs.pop() if len(slugs) == 1 else ""


def _rank_result(graded: GradedFile, exercise: str) -> tuple[object, ...]:
    return collate(graded.name or graded.student), collate(graded.student), exercise


def _is_better(record: SubmissionRecord, than: SubmissionRecord) -> bool:
    """Return whether a record has more points or, at equal points, no error."""
    return (record.score, record.error is None) > (than.score, than.error is None)


def _make_result(
    best: tuple[GradedFile, SubmissionRecord],
    key: tuple[str, str],
    max_scores: Mapping[str, float],
    override: Override | None,
    comments: Sequence[Comment],
    criteria: tuple[MarkedCriterion, ...],
) -> ExerciseResult:
    stored, record = best
    student, exercise = key
    most = round_sum(record.max_score or max_scores.get(exercise, 0.0))
    judged = round_points(record.score, most)
    earned, full = add_marks(judged, most, criteria)
    decided = None if override is None else override.score
    own = [c.text for c in comments if c.student == student and c.exercise in ("", exercise)]
    return ExerciseResult(
        student=student,
        name=stored.name,
        email=stored.email,
        handle=stored.handle,
        exercise=exercise,
        score=earned if decided is None else round_sum(decided),
        max_score=full,
        judged=judged,
        status=record.status,
        attempt=stored.attempt,
        late=stored.late,
        submitted=stored.submitted,
        record=record,
        override=override,
        comments=tuple(own),
        criteria=criteria,
        marked=round_sum(earned - judged),
    )


def describe_open(results: Sequence[ExerciseResult]) -> str:
    """Say how many marks nobody has given yet; empty if there are none."""
    open_for = [each.student for each in results for mark in each.criteria if mark.is_open]
    if not open_for:
        return ""
    count, students = len(open_for), len(set(open_for))
    several = "s" * (count != 1), "s" * (students != 1)
    return f"not yet marked: {count} mark{several[0]} of {students} student{several[1]}"


def apply_feedback(result: ExerciseResult, feedback: Feedback) -> ExerciseResult:
    """Return the part of a result that a student may see."""
    record = redact_submission(result.record, feedback)
    return replace(result, record=record, status=record.status)


def compare_results(
    before: Sequence[ExerciseResult], after: Sequence[ExerciseResult]
) -> list[ScoreChange]:
    """Return the results whose score without overrides differs, the largest loss first."""
    old = {(each.student, each.exercise): each for each in before}
    new = {(each.student, each.exercise): each for each in after}
    changes = [_compare(key, old.get(key), new.get(key)) for key in old.keys() | new.keys()]
    return sorted((c for c in changes if c.gain), key=lambda c: (c.gain, c.student, c.exercise))


def _compare(
    key: tuple[str, str], old: ExerciseResult | None, new: ExerciseResult | None
) -> ScoreChange:
    maxima = (old.max_score, new.max_score) if old and new else (0.0, 0.0)
    return ScoreChange(
        *key,
        before=old.earned if old else None,
        after=new.earned if new else None,
        overridden=old is not None and old.override is not None,
        maxima=maxima if all(maxima) and maxima[0] != maxima[1] else None,
    )


def list_changed_maxima(
    before: Sequence[ExerciseResult], after: Sequence[ExerciseResult]
) -> list[tuple[str, float, float]]:
    """Return the exercises whose maximum points changed, with the maxima before and after."""
    then = {each.exercise: each.max_score for each in before if each.max_score}
    now = {each.exercise: each.max_score for each in after if each.max_score}
    both = sorted(then.keys() & now.keys())
    return [(slug, then[slug], now[slug]) for slug in both if then[slug] != now[slug]]


def format_changes(
    changes: Sequence[ScoreChange],
    count: int,
    *,
    would: bool,
    maxima: Sequence[tuple[str, float, float]] = (),
) -> str:
    """Return a table of the changes and a tally of all `count` results.

    For exercises whose maximum changed, the table says that shares are compared, not points.
    """
    rows = [_format_change(each) for each in changes]
    gains = [each.gain > 0 for each in changes if not each.overridden]
    gain, lose, stay = sum(gains), len(gains) - sum(gains), count - len(gains)
    verb = "would " if would else ""
    tally = f"{gain} {verb}gain, {lose} {verb}lose, {stay} stay"
    said = [_explain_maximum(*each) for each in maxima]
    return "\n".join([*said, *(align_columns([CHANGES_HEADER, *rows]) if rows else []), tally, ""])


def _explain_maximum(slug: str, then: float, now: float) -> str:
    points = f"{format_number(then)} points before, {format_number(now)} now"
    return f"{sanitise_line(slug)}: {points}; we compare each score's share of these"


def _format_change(change: ScoreChange) -> tuple[str, ...]:
    before, after = map(_format_score, (change.before, change.after), change.maxima or (0.0, 0.0))
    overridden = "overridden" if change.overridden else ""
    names = map(sanitise_line, (change.student, change.exercise))
    unit = "" if change.maxima is None else " %"
    return (*names, before, after, f"{_format_gain(change.gain)}{unit}", overridden)


def _format_gain(gain: float) -> str:
    return f"{'+' if gain > 0 else '-'}{format_number(abs(gain))}"


def _format_score(score: float | None, most: float) -> str:
    """Format points, with their share of a maximum if it is given."""
    if score is None:
        return "–"
    share = f" ({format_number(100 * score / most)} %)" if most else ""
    return f"{format_number(score)}{share}"
