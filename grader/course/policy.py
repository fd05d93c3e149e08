"""What a course file says of one run's deadline, groups and rubrics, as it is kept with the run.

No verdict depends on it, so that it can be changed after grading.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headcheck.grader.course.intake.roster import Roster, Student, normalise_id, read_groups
from headcheck.grader.report.course_file import CourseFile
from headcheck.grader.report.deadlines import Deadline, Extension
from headcheck.grader.report.groups import AloneRule
from headcheck.grader.report.rubric import Rubric, Rubrics


@dataclass(frozen=True, slots=True)
class Group:
    """Students who hand in together."""

    name: str
    members: tuple[Student, ...]
    team: str = ""
    """the id under which the group hands in, if the course file names one"""


@dataclass(frozen=True, slots=True)
class Policy:
    """The deadline, the groups and the rubrics of a run."""

    deadline: Deadline | None = None
    groups: tuple[Group, ...] = ()
    alone: AloneRule = AloneRule.GROUP
    rubrics: Rubrics = field(default_factory=dict)
    """what people mark by hand, by exercise"""
    refused: tuple[str, ...] = ()
    """what the course file says of teams and cannot count, a line each"""


NO_POLICY = Policy()


def make_policy(rules: CourseFile, run: str, roster: Roster) -> Policy:
    """Return the policy of a run, in which students have the ids of the roster.

    Raises RosterError if the file with the groups cannot be read.
    """
    settings = rules.groups
    listed: Mapping[str, Sequence[Student | str]] = (
        settings.members if settings.file is None else read_groups(settings.file)
    )
    members = {
        name: tuple(_find_listed(each, roster) for each in group) for name, group in listed.items()
    }
    people = itertools.chain(roster.students, *members.values())
    ids = {normalise_id(each) for student in people for each in student.ids}
    refused = _refuse_teams(rules.groups.teams, members, ids)
    teams = {name: who for name, who in rules.groups.teams.items() if name not in refused}
    groups = tuple(Group(name, each, teams.get(name, "")) for name, each in members.items())
    deadline = rules.deadlines.get(run)
    if deadline is not None:
        found = (_find_extended(each, listed, ids, roster) for each in deadline.extensions)
        deadline = replace(deadline, extensions=tuple(found))
    rubrics = {slug: _find_weighted(each, roster) for slug, each in rules.rubrics.items()}
    return Policy(deadline, groups, rules.groups.alone, rubrics, tuple(refused.values()))


def _refuse_teams(
    teams: Mapping[str, str], groups: Collection[str], students: Collection[str]
) -> dict[str, str]:
    """Return why the id of a team cannot be one, by the name of the group."""
    refused = {}
    for name, who in teams.items():
        if name not in groups:
            refused[name] = f"[teams] has {name}, but there is no such group"
        elif normalise_id(who) in students:
            refused[name] = explain_no_team(who, name)
    return refused


def explain_no_team(who: str, group: str) -> str:
    """Say that an id is a student's, although the course file says that it is a group's."""
    return f"{who} is a student, so [teams] cannot give their work to the group {group}"


def _find_extended(
    extension: Extension, groups: Collection[str], students: Collection[str], roster: Roster
) -> Extension:
    """Return an extension with the roster's id; a group of that name has it if no student does."""
    who = extension.who
    if who not in groups or normalise_id(who) in students:
        of_group = False if who in groups else None
        return replace(extension, who=_find_listed(who, roster).id, of_group=of_group)
    return replace(extension, of_group=True if roster else None)


def explain_missing_deadline(rules: CourseFile, run: str) -> str:
    """Return a line if a course file has deadlines, but none for this run; else an empty text."""
    if not rules.deadlines or run in rules.deadlines:
        return ""
    there = ", ".join(rules.deadlines)
    return f"{rules.path} has no deadline for the run {run}, so nothing is late; it has {there}"


def _find_listed(who: Student | str, roster: Roster) -> Student:
    """Return a student from the roster, if exactly one fits, else as given."""
    if isinstance(who, str):
        who = Student(who)
        found = roster.find_all(who.id) or roster.find_all(name=who.id)
    else:
        found = roster.find_all(*who.ids) or roster.find_all(name=who.name)
    return found[0] if len(found) == 1 else who


def _find_weighted(rubric: Rubric, roster: Roster) -> Rubric:
    weights = {_find_listed(who, roster).id: each for who, each in rubric.weights.items()}
    return replace(rubric, weights=weights)
