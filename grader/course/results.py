"""Each student's result in each exercise: the best current verdict, or an instructor's override.

Pure functions of the results that a store holds under a run's name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.grader.course.grouping import (
    Answer,
    Membership,
    assign_groups,
    find_weighted,
    list_extensions,
    share_answers,
)
from headcheck.grader.course.marks import MarkedCriterion, add_marks, find_newest, list_criteria
from headcheck.grader.course.policy import NO_POLICY, Policy
from headcheck.grader.course.scoring import Lateness, Score, compute_score, measure_lateness
from headcheck.grader.course.store.records import Comment, GradedFile, Mark, Override
from headcheck.grader.report.collation import collate
from headcheck.grader.report.deadlines import Deadline, Extension
from headcheck.grader.report.feedback import Feedback, redact_submission
from headcheck.grader.report.points import scale_record
from headcheck.grader.report.records import (
    DAMAGED_KIND,
    NOT_HANDED_IN,
    NOT_JUDGED,
    SubmissionRecord,
)
from headcheck.grader.report.render.lines import align_columns
from headcheck.grader.report.render.sanitise import sanitise_line
from headcheck.grader.report.rounding import (
    DECIMALS,
    HUNDREDTH,
    format_number,
    round_points,
    round_sum,
    split_total,
)
from headcheck.properties.counting import count

CHANGES_HEADER = ("student", "exercise", "before", "after", "change")


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
    taken_off: float = 0.0
    """the points that late work lost"""
    penalty: str = ""
    """the same in words, such as `10 % late`"""
    group: str = ""
    """the student's group"""
    handed_in_by: str = ""
    """the id under which the work was handed in: the student's own, or another one of the group"""

    @property
    def earned(self) -> float:
        """The automatic points and the marks, before anything is taken off."""
        return round_sum(self.judged + self.marked)

    @property
    def graded(self) -> float:
        """The points that count without an override."""
        return round_sum(self.earned - self.taken_off)

    @property
    def highest(self) -> float:
        """The most points that there are: the maximum and every bonus."""
        bonuses = (each.full for each in self.criteria if each.criterion.bonus)
        return round_sum(self.max_score + sum(bonuses))

    @property
    def calculation(self) -> str:
        """How the score follows from what was earned, if it is less: `112 − 10 % late`."""
        if not self.penalty or self.override is not None:
            return ""
        return f"{format_number(self.earned)} − {self.penalty}"

    @property
    def explanation(self) -> str:
        """The same with its result, such as `112 − 10 % late: 100.8 points`."""
        text = self.calculation
        return f"{text}: {format_number(self.score)} points" if text else ""

    @property
    def is_absent(self) -> bool:
        """Whether nothing was handed in."""
        return self.status == NOT_HANDED_IN

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
    maxima: tuple[float, float] | None = None
    """the maximum points before and after, if they differ; then shares of the maxima are compared
    """
    penalties: tuple[str, str] = ("", "")
    """how points were taken off before and after, such as `112 − 10 % late`"""

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


@dataclass(frozen=True, slots=True)
class _RatedAnswer:
    """An answer of a student, and what it is worth to this student."""

    file: GradedFile
    record: SubmissionRecord
    judged: float
    criteria: tuple[MarkedCriterion, ...]
    most: float
    """the maximum with the criteria"""
    own_most: float
    """the same before it was scaled"""
    lateness: Lateness
    score: Score


def compute_results(
    stored: Iterable[GradedFile],
    overrides: Mapping[tuple[str, str], Override] | None = None,
    comments: Iterable[Comment] = (),
    *,
    marks: Iterable[Mark] = (),
    policy: Policy = NO_POLICY,
    step: float = HUNDREDTH,
    out_of: float | None = None,
) -> list[ExerciseResult]:
    """Return all results, sorted by name, then by id and exercise.

    This is where the deadline, the groups and the rubrics of a run are applied. `step` is what
    scores are rounded to if points are taken off. With `out_of` all points are scaled, so that this
    is the maximum of every exercise.
    """
    graded_files = list(stored)
    membership = assign_groups(policy, graded_files)
    granted = list_extensions(policy.deadline.extensions if policy.deadline else (), membership)
    rubrics, newest = find_weighted(policy.rubrics, membership), find_newest(marks)
    best: dict[tuple[str, str], _RatedAnswer] = {}
    for exercise, answers in collect_answers(graded_files).items():
        records = [record for own in answers.values() for _, record in own]
        most = next((r.max_score for r in records if r.max_score), 0.0)  # none if unreadable
        for student, own in share_answers(answers, membership, policy.alone):
            criteria = list_criteria(rubrics, newest, student, exercise)
            rules = policy.deadline, granted.get(student, ()), step, out_of
            rated = [_rate(each, most, criteria, *rules) for each in own]
            # More points are better or, at equal points, no error.
            best[student, exercise] = max(
                rated, key=lambda each: (each.score.points, each.record.error is None)
            )
    # Files without any exercise count only for students who answered none.
    answered = {student for student, exercise in best if exercise}
    kept = {k: v for k, v in best.items() if k[1] or k[0] not in answered}
    said, decided = list(comments), overrides or {}
    results = [_make_result(v, k, membership, decided.get(k), said) for k, v in kept.items()]
    return sorted(results, key=rank_result)


def collect_answers(stored: Sequence[GradedFile]) -> dict[str, dict[str, list[Answer]]]:
    """Return what was handed in by exercise, and by the id under which it was handed in."""
    slugs = {record.exercise for each in stored for record in each.records if record.exercise}
    only = slugs.pop() if len(slugs) == 1 else ""  # unreadable files count for it
    answers: dict[str, dict[str, list[Answer]]] = {}
    for each in stored:
        for record in each.records:
            by_student = answers.setdefault(record.exercise or only, {})
            by_student.setdefault(each.student, []).append((each, record))
    return answers


def _rate(
    answer: Answer,
    maximum: float,
    criteria: tuple[MarkedCriterion, ...],
    deadline: Deadline | None,
    extensions: Iterable[Extension],
    step: float,
    out_of: float | None,
) -> _RatedAnswer:
    file, record = answer
    most = round_sum(record.max_score or maximum)
    lateness = measure_lateness(deadline, extensions, file.submitted_at, marked=file.late)
    own_most = add_marks(0.0, most, criteria)[1]
    if out_of is not None and own_most:
        checks, marks = split_total(out_of, most, own_most - most)
        record, most = scale_record(record, checks, step), round_sum(most * checks)
        criteria = tuple(replace(each, scale=each.scale * marks) for each in criteria)
        lateness = lateness.scale(out_of / own_most)
    judged = round_points(record.score, most)
    earned, full = add_marks(judged, most, criteria)
    score = compute_score(earned, full, lateness, step)
    return _RatedAnswer(file, record, judged, criteria, full, own_most, lateness, score)


def _decide(override: Override, rated: _RatedAnswer) -> float:
    """Return a score that a person set: it keeps its share of the maximum of that time."""
    share = (override.score or 0.0) / (override.max_score or rated.own_most or 1.0)
    return round_sum(share * rated.most if rated.most else override.score or 0.0)


def rank_result(result: ExerciseResult) -> tuple[object, ...]:
    """Return the key by which results are sorted: by name, then by id and exercise."""
    return collate(result.name or result.student), collate(result.student), result.exercise


def _make_result(
    best: _RatedAnswer,
    key: tuple[str, str],
    membership: Membership,
    override: Override | None,
    comments: Sequence[Comment],
) -> ExerciseResult:
    student, exercise = key
    person = membership.people[student]
    own = [c.text for c in comments if c.student == student and c.exercise in ("", exercise)]
    return ExerciseResult(
        student=student,
        name=person.name,
        email=person.email,
        handle=next(iter(person.handles), student),
        exercise=exercise,
        score=best.score.points if override is None else _decide(override, best),
        max_score=best.most,
        judged=best.judged,
        status=best.record.status,
        attempt=best.file.attempt,
        late=best.lateness.late,
        submitted=best.file.submitted,
        record=replace(best.record, student=student),
        override=override,
        comments=tuple(own),
        criteria=best.criteria,
        marked=round_sum(best.score.earned - best.judged),
        taken_off=round_sum(best.score.earned - best.score.points),
        penalty=best.score.penalty,
        group=membership.group_of.get(student, ""),
        handed_in_by=best.file.student,
    )


def describe_open(results: Sequence[ExerciseResult]) -> str:
    """Say how many marks nobody has given yet; empty if there are none."""
    open_for = [each.student for each in results for mark in each.criteria if mark.is_open]
    if not open_for:
        return ""
    students = count(len(set(open_for)), "student")
    return f"not yet marked: {count(len(open_for), 'mark')} of {students}"


def list_kept_shares(results: Sequence[ExerciseResult]) -> tuple[str, ...]:
    """Return a phrase for each score set by a person when the maximum was another one."""
    return tuple(
        f"{each.student} {format_number(each.override.score or 0.0)} of "
        f"{format_number(each.override.max_score)}, now {format_number(each.score)} of "
        f"{format_number(each.max_score)}"
        for each in results
        if each.override and each.override.max_score not in (None, 0.0, each.max_score)
    )


def find_damaged(results: Sequence[ExerciseResult]) -> tuple[str, ...]:
    """Return the students of whose verdicts one cannot be read."""
    errors = ((each.student, each.record.error) for each in results)
    return tuple(
        dict.fromkeys(who for who, e in errors if e is not None and e.kind == DAMAGED_KIND)
    )


def apply_feedback(result: ExerciseResult, feedback: Feedback) -> ExerciseResult:
    """Return the part of a result that a student may see, without the reason of a decision."""
    record = redact_submission(result.record, feedback)
    override = result.override and replace(result.override, reason="", author="")
    return replace(result, record=record, status=record.status, override=override)


def compare_results(
    before: Sequence[ExerciseResult], after: Sequence[ExerciseResult]
) -> list[ScoreChange]:
    """Return the results whose score differs, the largest loss first."""
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
        before=old.score if old else None,
        after=new.score if new else None,
        maxima=maxima if all(maxima) and maxima[0] != maxima[1] else None,
        penalties=(old.calculation if old else "", new.calculation if new else ""),
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
    gains = [each.gain > 0 for each in changes]
    gain, lose, stay = sum(gains), len(gains) - sum(gains), count - len(gains)
    verb = "would " if would else ""
    tally = f"{gain} {verb}gain, {lose} {verb}lose, {stay} stay"
    said = [_explain_maximum(*each) for each in maxima]
    return "\n".join([*said, *(align_columns([CHANGES_HEADER, *rows]) if rows else []), tally, ""])


def _explain_maximum(slug: str, then: float, now: float) -> str:
    points = f"{format_number(then)} points before, {format_number(now)} now"
    return f"{sanitise_line(slug)}: {points}; we compare each score's share of these"


def _format_change(change: ScoreChange) -> tuple[str, ...]:
    scores, maxima = (change.before, change.after), change.maxima or (0.0, 0.0)
    before, after = map(_format_score, scores, maxima, change.penalties)
    names = map(sanitise_line, (change.student, change.exercise))
    unit = "" if change.maxima is None else " %"
    sign = "+" if change.gain > 0 else "-"
    return (*names, before, after, f"{sign}{format_number(abs(change.gain))}{unit}")


def _format_score(score: float | None, most: float, penalty: str) -> str:
    """Format points, with their share of a maximum and how they were reduced, if it is given."""
    if score is None:
        return "–"
    share = f" ({format_number(100 * score / most)} %)" if most else ""
    return f"{format_number(score)}{share}{f' = {penalty}' if penalty else ''}"
