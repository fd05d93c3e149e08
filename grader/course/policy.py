"""What a course file says of one run's deadline, groups and rubrics, as it is kept with the run.

No verdict depends on it, so that it can be changed after grading.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headcheck.grader.course.intake.group_file import read_groups
from headcheck.grader.course.intake.roster import Roster, Student
from headcheck.grader.report.course_file import CourseFile
from headcheck.grader.report.deadlines import Deadline
from headcheck.grader.report.groups import AloneRule, GroupSettings
from headcheck.grader.report.languages import SOURCE
from headcheck.grader.report.rubric import Rubric, Rubrics


@dataclass(frozen=True, slots=True)
class Group:
    """Students who hand in together."""

    name: str
    members: tuple[Student, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """The deadline, the groups, the rubrics and the language of a run."""

    deadline: Deadline | None = None
    groups: tuple[Group, ...] = ()
    alone: AloneRule = AloneRule.GROUP
    rubrics: Rubrics = field(default_factory=dict)
    """what people mark by hand, by exercise"""
    language: str = SOURCE
    """the code of the language in which students read"""


NO_POLICY = Policy()


def make_policy(rules: CourseFile, run: str, roster: Roster) -> Policy:
    """Return the policy of a run, in which students have the ids of the roster.

    Raises RosterError if the file with the groups cannot be read.
    """
    listed = _list_members(rules.groups)
    groups = tuple(
        Group(name, tuple(_find_listed(each, roster) for each in members))
        for name, members in listed.items()
    )
    deadline = rules.deadlines.get(run)
    if deadline is not None:
        found = [
            replace(each, who=each.who if each.who in listed else _find_listed(each.who, roster).id)
            for each in deadline.extensions
        ]
        deadline = replace(deadline, extensions=tuple(found))
    rubrics = {slug: _find_weighted(each, roster) for slug, each in rules.rubrics.items()}
    return Policy(deadline, groups, rules.groups.alone, rubrics, rules.language)


def explain_missing_deadline(rules: CourseFile, run: str) -> str:
    """Return a line if a course file has deadlines, but none for this run; else an empty text."""
    if not rules.deadlines or run in rules.deadlines:
        return ""
    there = ", ".join(rules.deadlines)
    return f"{rules.path} has no deadline for the run {run}, so nothing is late; it has {there}"


def _list_members(settings: GroupSettings) -> Mapping[str, Sequence[Student | str]]:
    return settings.members if settings.file is None else read_groups(settings.file)


def _find_listed(who: Student | str, roster: Roster) -> Student:
    """Return a student from the roster, if exactly one fits, else as given."""
    if isinstance(who, str):
        who = Student(who)
        found = roster.find_all(who.id) or roster.find_all(name=who.id)
    else:
        found = roster.find_all(*list_ids(who)) or roster.find_all(name=who.name)
    return found[0] if len(found) == 1 else who


def _find_weighted(rubric: Rubric, roster: Roster) -> Rubric:
    weights = {_find_listed(who, roster).id: each for who, each in rubric.weights.items()}
    return replace(rubric, weights=weights)


def list_ids(student: Student) -> tuple[str, ...]:
    """Return everything that identifies a student, which a name does not."""
    return (student.id, student.email, student.login, *student.handles)
