"""From verdicts to points: what a mistake costs grows with how much of the exercise it breaks.

The points of a group are shared by its properties. Nothing earns anything unless tokens
attend, and nothing of a group if what the group is about does not hold: hidden tokens that are seen
are not half right because some other claim about them holds. What is not tried for the sake of
something smaller, or for lack of time, is not known, and counts as what is known of its group does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from headcheck.exercises import Exercise
from headcheck.grader.report.records import PropertyRecord, SubmissionRecord
from headcheck.grader.report.rounding import round_points, round_sum
from headcheck.properties.group import PropertyGroup
from headcheck.properties.violation import UNKNOWN, Status

if TYPE_CHECKING:  # so that reading a store does not import torch
    from headcheck.properties.property import Property, Verdict

Points = Mapping[str, Mapping[str, float]]
"""the points of groups by exercise, if they differ from the exercise's own"""


def distribute_points(exercise: Exercise, points: Points | None) -> dict[Property, float]:
    """Return the points of each property of an exercise.

    One about a peculiarity counts for two: it is the only one that decides about that.
    """
    overrides = (points or {}).get(exercise.slug, {})
    shares = Counter[PropertyGroup]()
    for prop in exercise.properties:
        shares[prop.group] += _count_shares(prop)

    def compute(prop: Property) -> float:
        whole = overrides.get(prop.group.value, exercise.get_points(prop.group))
        return whole * _count_shares(prop) / shares[prop.group]

    return {prop: compute(prop) for prop in exercise.properties}


def _count_shares(prop: Property) -> int:
    return 1 if prop.about is None else 2


def compute_maximum(exercise: Exercise, points: Points | None) -> float:
    """Return the most points that an answer to an exercise can earn."""
    return round_sum(sum(distribute_points(exercise, points).values()))


def award_points(
    exercise: Exercise,
    verdicts: Sequence[Verdict],
    points: Points | None,
    found: Collection[Property] = (),
) -> list[float]:
    """Return the points of each verdict, in order; none unless the prerequisite holds.

    What a search `found` to fail held on the fixed cases, which is enough of a prerequisite, and
    for the group.
    """
    value = distribute_points(exercise, points)
    held = {v.property for v in verdicts if v.status is Status.PASSED or v.property in found}
    failed = {v.property for v in verdicts} - held
    if exercise.prerequisite in failed and not _is_known_to_compute(exercise, verdicts):
        return [0.0] * len(verdicts)
    worthless = {each.group for each in failed if _spoils_group(each, failed)}
    not_asked = {v.property for v in verdicts if v.status is Status.NOT_ASKED}
    unknown = _find_unknown(verdicts, failed - not_asked, worthless) | not_asked
    shares = {group: _share_of_known(verdicts, group) for group in {p.group for p in unknown}}

    def earn(verdict: Verdict) -> float:
        prop = verdict.property
        if prop.group in worthless:
            return 0.0
        if prop in unknown:
            return value[prop] * shares[prop.group]
        return value[prop] if verdict.status is Status.PASSED else 0.0

    return [earn(verdict) for verdict in verdicts]


def _is_known_to_compute(exercise: Exercise, verdicts: Sequence[Verdict]) -> bool:
    """Return whether the prerequisite was not tried, and the right values show that it holds.

    Two calls of what keeps something between them tell nothing; each of them may be right.
    """
    statuses = {v.property: v.status for v in verdicts}
    about_values = [p for p in statuses if p.essential and p.group is PropertyGroup.VALUES]
    right = all(statuses[prop] is Status.PASSED for prop in about_values)
    return statuses.get(exercise.prerequisite) is Status.NOT_TRIED and right and bool(about_values)


def _find_unknown(
    verdicts: Sequence[Verdict],
    failed: AbstractSet[Property],
    worthless: Collection[PropertyGroup],
) -> set[Property]:
    """Return what was not tried for the sake of something smaller, so that it may well hold.

    What was not tried because of a claim of a group that is worth nothing is lost with it, and so
    is what rests on the form of a module: what needs registered weights has none. Of a group of
    which it is not even known whether what it is about holds, nothing is taken to hold.
    """
    untried = {v.property for v in verdicts if v.status is Status.NOT_TRIED}
    broken = failed - untried
    doubtful = {prop.group for prop in untried if prop.essential}
    peculiar = [prop for prop in broken if prop.about is not None]

    def is_unknown(prop: Property) -> bool:
        causes = _list_required(prop) & broken or peculiar
        lost = {*worthless, PropertyGroup.CONTRACT}
        grave = (cause.group in lost for cause in causes if cause.about is None)
        return bool(causes) and not any(grave)

    return {prop for prop in untried if prop.group not in doubtful and is_unknown(prop)}


def _list_required(prop: Property) -> set[Property]:
    """Return what a property requires, and what that requires in turn."""
    return set(prop.requires).union(*map(_list_required, prop.requires))


def _share_of_known(verdicts: Sequence[Verdict], group: PropertyGroup) -> float:
    """Return how much of what was tried of a group holds, as a share."""
    members = [v for v in verdicts if v.property.group is group]
    tried = sum(_count_shares(v.property) for v in members if v.status not in UNKNOWN)
    held = sum(_count_shares(v.property) for v in members if v.status is Status.PASSED)
    return held / tried if tried else 0.0


def _spoils_group(prop: Property, failed: AbstractSet[Property]) -> bool:
    """Whether nothing of a group counts because what it is about does not hold.

    What was not tried because of another group's claim is not known not to hold.
    """
    others = (required for required in prop.requires if required.group is not prop.group)
    return prop.essential and failed.isdisjoint(others)


def score_again(
    record: SubmissionRecord, exercise: Exercise | None, points: Points | None, step: float
) -> SubmissionRecord:
    """Return a record with the points that its verdicts are worth now; the verdicts stay.

    Without the exercise, that of a class which is judged as what it is, only rounding is new.
    """
    if exercise is not None and record.error is not None:
        return replace(record, max_score=compute_maximum(exercise, points))
    if exercise is not None:
        record = replace(record, properties=_award_again(record, exercise, points))
    if record.error is not None:
        return record
    return add_up(record, step)


def _award_again(
    record: SubmissionRecord, exercise: Exercise, points: Points | None
) -> tuple[PropertyRecord, ...]:
    from headcheck.properties.property import Verdict

    by_name = {prop.name: prop for prop in exercise.properties}
    verdicts = [Verdict(by_name[p.name], Status(p.status)) for p in record.properties]
    found = {by_name[name] for name in record.search.found} if record.search else set()
    value = distribute_points(exercise, points)
    earned = award_points(exercise, verdicts, points, found)
    return tuple(
        replace(p, points=got, max_points=value[by_name[p.name]])
        for p, got in zip(record.properties, earned, strict=True)
    )


def add_up(record: SubmissionRecord, step: float) -> SubmissionRecord:
    """Return a record whose score is that of its properties, rounded to a step."""
    most = sum(p.max_points for p in record.properties)
    score = round_points(sum(p.points for p in record.properties), most, step)
    return replace(record, score=score, max_score=round_sum(most))
