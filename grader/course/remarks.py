"""What instructors are told about a run's deadline and groups, and students about late work."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headcheck.grader.course.grouping import Membership, assign_groups, find_weighted, list_alone
from headcheck.grader.course.intake.roster import Roster
from headcheck.grader.course.marks import list_weighted_strangers
from headcheck.grader.course.policy import Policy
from headcheck.grader.course.results import ExerciseResult, collect_answers
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.report.deadlines import Deadline
from headcheck.grader.report.groups import AloneRule
from headcheck.grader.report.records import NoteRecord, Report, SubmissionRecord

COUNTS = {
    AloneRule.GROUP: "the group's work counts",
    AloneRule.OWN: "their own work counts",
    AloneRule.BETTER: "the better work counts",
}
MAX_NAMED = 10
"""the largest number of students without a time who are named"""
NAMESAKES = (
    "named like a group, but their work is their own, "
    "unless [teams] of the course file gives it to the group"
)
Remark = tuple[str, tuple[str, ...]]
"""a remark, and whom it is about"""


def describe_policy(
    policy: Policy, stored: Sequence[GradedFile], results: Sequence[ExerciseResult], roster: Roster
) -> Iterator[Remark]:
    """Yield what is odd about groups, weights and extensions, and who is late."""
    membership = assign_groups(policy, stored)
    yield from (("groups", (problem,)) for problem in membership.problems)
    unknown = [who for who in membership.strangers if not roster.match(who)]
    yield "in a group, but on no roster, and nobody handed in as", tuple(unknown)
    both = tuple(f"{who} (the group {group})" for who, group in membership.namesakes.items())
    yield NAMESAKES, both
    answers = collect_answers(stored).values()
    alone = dict.fromkeys(who for each in answers for who in list_alone(each, membership))
    listed = tuple(f"{who} ({membership.group_of[who]})" for who in alone)
    yield f"in a group, but handed in something else as well; {COUNTS[policy.alone]}", listed
    answered = {(each.student, each.exercise) for each in results}
    strangers = list_weighted_strangers(find_weighted(policy.rubrics, membership), answered)
    yield "in [weights], and without a result there", strangers
    if policy.deadline is not None:
        own = tuple(_find_own(policy.deadline, membership))
        yield "extensions of a student, and not of the group with the same name", own
        nobody = _find_nobody(policy.deadline, membership, roster)
        yield "extensions for nobody that is known", nobody
        yield from _describe_times(results)


def _find_own(deadline: Deadline, membership: Membership) -> Iterator[str]:
    """Yield the names of groups under which a student has an extension."""
    named = (each for each in deadline.extensions if each.who in membership.groups)
    for each in named:
        if each.of_group is False or (not each.of_group and membership.find_students(each.who)):
            yield each.who


def _find_nobody(deadline: Deadline, membership: Membership, roster: Roster) -> tuple[str, ...]:
    """Return those with an extension who are neither a group nor a known student."""
    others = [each.who for each in deadline.extensions if each.who not in membership.groups]
    return tuple(
        who for who in others if not (membership.find_students(who) or roster.find_all(who))
    )


def _describe_times(results: Sequence[ExerciseResult]) -> Iterator[Remark]:
    untimed = [each for each in results if each.submitted is None]
    marked = dict.fromkeys(each.student for each in untimed if each.late and not each.penalty)
    unmarked = dict.fromkeys(each.student for each in untimed if not each.late)
    late = (f"{each.student} {each.calculation}" for each in results if each.calculation)
    yield "late", tuple(late)
    yield "marked as late, but at no known time, so nothing is taken off", tuple(marked)
    students = {each.student for each in results}
    yield "handed in at no known time, so not late", _sum_up(tuple(unmarked), len(students))


def _sum_up(students: tuple[str, ...], everybody: int) -> tuple[str, ...]:
    """Return a few students, or how many they are: the times of a whole class are often unknown."""
    count = len(students)
    if 1 < count == everybody:
        return (f"all {count} students",)
    return students if count <= MAX_NAMED else (f"{count} of {everybody} students",)


def note_lateness(report: Report, results: Sequence[ExerciseResult]) -> Report:
    """Return a report with a note on each submission that lost points because it came late."""
    late = [each for each in results if each.calculation]
    noted = tuple(_add_notes(record, late) for record in report.submissions)
    return replace(report, submissions=noted)


def _add_notes(record: SubmissionRecord, late: Sequence[ExerciseResult]) -> SubmissionRecord:
    """Add what somebody lost by this file: its owner, or else the other members of a group."""
    same = [each for each in late if each.record.file == record.file]
    same = [each for each in same if record.exercise in (None, each.exercise)]
    own = [each for each in same if each.student == record.student]
    texts = dict.fromkeys(each.explanation for each in own or same if each in own or each.group)
    notes = (NoteRecord("late", text) for text in texts)
    return replace(record, notes=(*record.notes, *notes))
