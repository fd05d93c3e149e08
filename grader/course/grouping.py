"""Whose work counts for whom: students of a group share what one of them handed in.

Pure functions of the files in a store. Students are found by ids alone, since on most systems they
choose their names themselves.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headcheck.grader.course.intake.roster import Roster, Student, build_roster, normalise_id
from headcheck.grader.course.policy import Policy, explain_no_team
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
    """the group that the course file says hands in under an id, by that id"""
    namesakes: Mapping[str, str]
    """the group whose name somebody has as an id, by that id, if it is no team's"""
    problems: tuple[str, ...]
    """what is wrong with the groups, a line for each problem"""
    strangers: tuple[str, ...]
    """ids of members who handed in nothing"""

    @cached_property
    def _roster(self) -> Roster:
        return build_roster(self.people.values())

    def find_students(self, who: str) -> tuple[str, ...]:
        """Return whose id is exactly this, else whom one of the ids fits, in any case."""
        fitting = tuple(student.id for student in self._roster.find_all(who))
        found = (who,) if who in self.people else fitting
        return tuple(each for each in found if each not in self.teams)


def assign_groups(policy: Policy, stored: Iterable[GradedFile]) -> Membership:
    """Find the members of all groups among those who handed in; the others keep their ids.

    Somebody who is listed in two groups belongs to the first one.
    """
    handed_in = {each.student: each for each in stored}
    people = {
        who: Student(who, file.name, email=file.email, handles=(file.handle,))
        for who, file in handed_in.items()
    }
    known = build_roster(people.values())
    groups: dict[str, list[str]] = {group.name: [] for group in policy.groups}
    group_of, problems = dict[str, str](), list(policy.refused)
    for group in policy.groups:
        for listed in group.members:
            found = known.find_all(*listed.ids)  # who handed in under one of these ids
            member = found[0] if len(found) == 1 else listed
            first = group_of.setdefault(member.id, group.name)
            if first != group.name:
                both = f"{first} and {group.name}"
                problems.append(f"{member.id} is in two groups, {both}: {first} counts")
            elif member.id not in groups[first]:
                groups[first].append(member.id)
                people.setdefault(member.id, replace(member, name=member.display_name))
    problems += [f"the group {name} is empty" for name, members in groups.items() if not members]
    teams, no_teams = _find_teams(policy, handed_in, group_of)
    return Membership(
        {name: tuple(members) for name, members in groups.items()},
        group_of,
        people,
        teams,
        _find_namesakes(groups, handed_in.keys() - teams.keys(), group_of),
        tuple(dict.fromkeys([*problems, *no_teams])),
        tuple(who for who in group_of if who not in handed_in),
    )


def _find_teams(
    policy: Policy, handed_in: Mapping[str, GradedFile], group_of: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the groups that handed in under ids of their own, by id, and why others did not.

    Only the course file names such ids. Where a system names a person, it is no team.
    """
    teams, problems = dict[str, str](), list[str]()
    for group in (each for each in policy.groups if each.team):
        # Somebody may have handed in under another spelling, if only one id can be meant.
        alike = [each for each in handed_in if normalise_id(each) == normalise_id(group.team)]
        who = alike[0] if group.team not in handed_in and len(alike) == 1 else group.team
        if who not in handed_in:
            continue
        file = handed_in[who]
        if who in group_of or file.name not in ("", who) or file.email:
            problems.append(explain_no_team(f"{who} ({file.name})", group.name))
        else:
            teams[who] = group.name
    return teams, problems


def _find_namesakes(
    groups: Iterable[str], ids: Iterable[str], group_of: Mapping[str, str]
) -> dict[str, str]:
    """Return the groups of which others have the name as an id, by id.

    GitHub writes `Team Blue` as `team-blue`.
    """
    slugs = {name: re.sub(r"\W+", "-", normalise_id(name)).strip("-") for name in groups}
    spelled = {spelling: name for name, slug in slugs.items() for spelling in (slug, name)}
    named = {normalise_id(spelling): name for spelling, name in spelled.items() if spelling}
    found = ((who, named.get(normalise_id(who))) for who in sorted(ids))
    return {who: name for who, name in found if name and name != group_of.get(who)}


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
    shared_of = {who for who, name in membership.teams.items() if membership.groups[name]}
    grouped = {*membership.group_of, *shared_of}
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

    That is what the group handed in under an id of its own, or else what one of the members did.
    """
    own = {who: answers[who] for who in membership.groups[name] if who in answers}
    team = next((who for who, group in membership.teams.items() if group == name), "")
    return own, answers.get(team, ()) or (_choose_shared(own) if own else ())


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
    """Return the extensions of each student: own ones, and those of the group.

    What is an id and the name of a group is the student's.
    """
    granted: dict[str, list[Extension]] = {}
    for each in extensions:
        members = () if each.of_group is False else membership.groups.get(each.who, ())
        alone = () if each.of_group else membership.find_students(each.who)
        for who in alone or members:
            granted.setdefault(who, []).append(each)
    return granted


def find_weighted(rubrics: Rubrics, membership: Membership) -> Rubrics:
    """Return the rubrics, with weights by the ids that students have in the store."""

    def find(rubric: Rubric) -> Rubric:
        found = ((membership.find_students(who) or (who,), w) for who, w in rubric.weights.items())
        return replace(rubric, weights={who: weights for own, weights in found for who in own})

    return {slug: find(each) for slug, each in rubrics.items()}
