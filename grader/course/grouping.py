"""Whose work counts for whom: students of a group share what one of them handed in.

Pure functions of the files in a store. Students are found by ids alone, since on most systems they
choose their names themselves.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headcheck.grader.course.intake.roster import Roster, Student, build_roster, normalise_id
from headcheck.grader.course.policy import Policy, list_ids
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.report.deadlines import Extension
from headcheck.grader.report.groups import AloneRule
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.report.rubric import Rubric, Rubrics

Answer = tuple[GradedFile, SubmissionRecord]
"""a verdict, and the file that it is about"""
Answers = Mapping[str, Sequence[Answer]]
"""answers to one exercise by the id under which they were handed in"""


@dataclass(frozen=True)
class Membership:
    """The groups of a run, with the ids that its students have in the store."""

    groups: Mapping[str, tuple[str, ...]]
    """ids of the members by the name of the group"""
    group_of: Mapping[str, str]
    """the group of each member"""
    people: Mapping[str, Student]
    """everybody who handed in anything, and all members, by id"""
    teams: Mapping[str, str]
    """the id of what was handed in under the name of a group, by that name"""
    problems: tuple[str, ...]
    """what is wrong with the groups, a line for each problem"""
    strangers: tuple[str, ...]
    """ids of members who handed in nothing"""

    @cached_property
    def _roster(self) -> Roster:
        return build_roster(self.people.values())

    def find_students(self, who: str) -> tuple[str, ...]:
        """Return whose id is exactly this, else whom one of the ids fits, in any case."""
        found = self._roster.find_all(who)
        return (who,) if who in self.people else tuple(student.id for student in found)


def assign_groups(policy: Policy, stored: Iterable[GradedFile]) -> Membership:
    """Find the members of all groups among those who handed in; the others keep their ids.

    Somebody who is listed in two groups belongs to the first one.
    """
    handed_in = {each.student: each for each in stored}
    people = {who: _make_student(file) for who, file in handed_in.items()}
    known = build_roster(people.values())
    groups: dict[str, list[str]] = {group.name: [] for group in policy.groups}
    group_of, problems = dict[str, str](), list[str]()
    for group in policy.groups:
        for listed in group.members:
            member = _identify(listed, known)
            first = group_of.setdefault(member.id, group.name)
            if first != group.name:
                both = f"{first} and {group.name}"
                problems.append(f"{member.id} is in two groups, {both}: {first} counts")
            elif member.id not in groups[first]:
                groups[first].append(member.id)
                people.setdefault(member.id, replace(member, name=member.display_name))
    problems += [f"the group {name} is empty" for name, members in groups.items() if not members]
    return Membership(
        {name: tuple(members) for name, members in groups.items()},
        group_of,
        people,
        _find_teams(groups, [file for who, file in handed_in.items() if who not in group_of]),
        tuple(dict.fromkeys(problems)),
        tuple(who for who in group_of if who not in handed_in),
    )


def _make_student(file: GradedFile) -> Student:
    return Student(file.student, file.name, email=file.email, handles=(file.handle,))


def _identify(member: Student, known: Roster) -> Student:
    """Return who handed in under one of the member's ids; if not exactly one did, the member."""
    found = known.find_all(*list_ids(member))
    return found[0] if len(found) == 1 else member


def _find_teams(groups: Iterable[str], others: Iterable[GradedFile]) -> dict[str, str]:
    """Return what was handed in under a group's name, as in a repository or a folder of a team.

    GitHub writes `Team Blue` as `team-blue`. Where a system names a person, it is no team.
    """
    unnamed = {normalise_id(each.student): each.student for each in others if not _has_name(each)}
    spellings = {name: (normalise_id(name), _make_slug(name)) for name in groups}
    found = {
        name: next((unnamed[each] for each in both if each in unnamed), None)
        for name, both in spellings.items()
    }
    return {name: team for name, team in found.items() if team is not None}


def _has_name(file: GradedFile) -> bool:
    return file.name not in ("", file.student) or bool(file.email)


def _make_slug(name: str) -> str:
    return re.sub(r"\W+", "-", normalise_id(name)).strip("-")


def share_answers(
    answers: Answers, membership: Membership, rule: AloneRule
) -> Iterator[tuple[str, Sequence[Answer]]]:
    """Yield each student's answers to one exercise, of which the best counts.

    `answers` are those that were handed in. A member of a group has the group's, unless the rule
    says otherwise.
    """
    for name, members in membership.groups.items():
        own, shared = _find_shared(answers, name, membership)
        if shared:
            yield from ((who, _apply_rule(own.get(who, ()), shared, rule)) for who in members)
    grouped = {*membership.group_of, *membership.teams.values()}
    yield from ((who, each) for who, each in answers.items() if who not in grouped)


def list_alone(answers: Answers, membership: Membership) -> Iterator[str]:
    """Yield the members who handed in something else than what counts for their group."""
    for name in membership.groups:
        own, shared = _find_shared(answers, name, membership)
        contents = _get_contents(shared)
        yield from (who for who, each in own.items() if _get_contents(each) != contents)


def _find_shared(
    answers: Answers, name: str, membership: Membership
) -> tuple[Answers, Sequence[Answer]]:
    """Return what the members of a group handed in, and what counts for the group.

    That is what was handed in under the group's name, or else by one of the members.
    """
    own = {who: answers[who] for who in membership.groups[name] if who in answers}
    named = answers.get(membership.teams.get(name, ""), ())
    return own, named or (_choose_shared(own) if own else ())


def _apply_rule(
    own: Sequence[Answer], shared: Sequence[Answer], rule: AloneRule
) -> Sequence[Answer]:
    if rule is AloneRule.OWN:
        return own or shared
    return (*shared, *own) if rule is AloneRule.BETTER else shared


def _choose_shared(own: Answers) -> Sequence[Answer]:
    """Return what most members handed in alike; else what was handed in last; else the best.

    What could not be judged counts only if nothing else is there. Times count only if all of them
    are known. Of what is alike, the first counts: handing in once more what is there already makes
    nobody late.
    """
    timed = all(file.submitted for answers in own.values() for file, _ in answers)
    contents = [_get_contents(answers) for answers in own.values()]

    def rank(answers: Sequence[Answer]) -> tuple[bool, int, str, float]:
        is_judged = any(record.error is None for _, record in answers)
        last = _find_time(answers)[1] if timed else ""
        points = max(record.score for _, record in answers)
        return is_judged, contents.count(_get_contents(answers)), last, points

    chosen = _get_contents(max(own.values(), key=rank))
    alike = (answers for answers in own.values() if _get_contents(answers) == chosen)
    return min(alike, key=_find_time)


def _find_time(answers: Sequence[Answer]) -> tuple[bool, str]:
    """Return whether answers are marked as late, and when the last one was handed in."""
    return any(file.late for file, _ in answers), max(file.submitted or "" for file, _ in answers)


def _get_contents(answers: Sequence[Answer]) -> frozenset[tuple[str, str]]:
    return frozenset(file.content_key for file, _ in answers)


def list_extensions(
    extensions: Iterable[Extension], membership: Membership
) -> dict[str, list[Extension]]:
    """Return the extensions of each student: own ones, and those of the group."""
    granted: dict[str, list[Extension]] = {}
    for each in extensions:
        alone = membership.find_students(each.who)
        for who in {*membership.groups.get(each.who, ()), *alone}:
            granted.setdefault(who, []).append(each)
    return granted


def find_weighted(rubrics: Rubrics, membership: Membership) -> Rubrics:
    """Return the rubrics, with weights by the ids that students have in the store."""

    def find(rubric: Rubric) -> Rubric:
        found = ((membership.find_students(who) or (who,), w) for who, w in rubric.weights.items())
        return replace(rubric, weights={who: weights for own, weights in found for who in own})

    return {slug: find(each) for slug, each in rubrics.items()}
