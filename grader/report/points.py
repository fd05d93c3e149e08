"""Compute points from verdicts, so that a mistake costs more the more it breaks.

The properties of a group share its points. An answer earns nothing unless its tokens attend to each
other. A group earns nothing if its essential property fails: a mask that shows hidden tokens is not
half right because another property about it holds. If a property was not tried because of a minor
failure, its points follow the share of its group that holds. What was not asked for lack of time
earns nothing, and a property that was asked on a part of its cases earns that part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from headcheck.exercises import Exercise
from headcheck.grader.report.records import PropertyRecord, RepairRecord, SubmissionRecord
from headcheck.grader.report.rounding import round_points, round_sum
from headcheck.properties.terms.depth import Depth
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import Status

if TYPE_CHECKING:  # so that reading a store does not import torch
    from headcheck.properties.property import Property, Verdict

Points = Mapping[str, Mapping[str, float]]
"""the points of groups, by exercise, where they differ from the exercise's own points"""
SLIP = 15.0
"""what the change that undoes a slip costs, in percent of the points, unless a course says so"""


def distribute_points(exercise: Exercise, points: Points | None) -> dict[Property, float]:
    """Return the points of each property of an exercise.

    A property about a peculiarity of the exercise has double weight, since no other property covers
    that peculiarity.
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


def list_groups(exercise: Exercise, points: Points | None) -> dict[str, float]:
    """Return the points of each group of an exercise, by name, without importing torch."""
    own = (points or {}).get(exercise.slug, {})
    groups = dict.fromkeys(each.group for each in exercise.summaries)
    return {each.value: own.get(each.value, exercise.get_points(each)) for each in groups}


def scale_record(record: SubmissionRecord, factor: float, step: float) -> SubmissionRecord:
    """Return a record with this many times the points, rounded once more to a step."""
    if not record.properties:
        return replace(record, max_score=round_sum(record.max_score * factor))
    properties = tuple(
        replace(p, points=p.points * factor, max_points=p.max_points * factor)
        for p in record.properties
    )
    return add_up(replace(record, properties=properties), step)


def award_points(
    exercise: Exercise,
    verdicts: Sequence[Verdict],
    points: Points | None,
    found: Collection[Property] = (),
) -> list[float]:
    """Return the points of each verdict, in order; all are 0 unless the prerequisite holds.

    Properties that only a search `found` to fail held on the fixed cases, so they count as
    prerequisites, and for their group.
    """
    value = distribute_points(exercise, points)
    held = {v.property for v in verdicts if _find_held_share(v) or v.property in found}
    failed = {v.property for v in verdicts} - held
    if exercise.prerequisite in failed and not _is_known_to_compute(exercise, verdicts):
        return [0.0] * len(verdicts)
    worthless = {each.group for each in failed if _spoils_group(each, failed)}
    not_asked = {v.property for v in verdicts if v.status is Status.NOT_ASKED}  # no mistakes
    paid = {prop.group for prop, points in value.items() if points}
    unknown = _find_unknown(verdicts, failed - not_asked, worthless & paid)
    shares = {group: _share_of_known(verdicts, group) for group in {p.group for p in unknown}}

    def earn(verdict: Verdict) -> float:
        prop = verdict.property
        if prop.group in worthless:
            return 0.0
        if prop in unknown:
            return value[prop] * shares[prop.group]
        return value[prop] * _find_held_share(verdict)

    return [earn(verdict) for verdict in verdicts]


def _is_known_to_compute(exercise: Exercise, verdicts: Sequence[Verdict]) -> bool:
    """Return whether the prerequisite was not tried, and the right values show that it holds.

    If an answer keeps state between two calls, right values show nothing about the prerequisite,
    because each call may be right by itself.
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
    """Return the properties that were not tried because of a minor failure, and may hold.

    The result excludes properties whose cause belongs to a group that lost its points, and
    properties that depend on the form of a module, which may have no registered weights. It also
    excludes all properties of a group whose essential property was not tried either.
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
    """Return the properties that a property requires, directly or indirectly."""
    return set(prop.requires).union(*map(_list_required, prop.requires))


def _share_of_known(verdicts: Sequence[Verdict], group: PropertyGroup) -> float:
    """Return the share of a group that holds, without properties that could not be tried."""
    members = [v for v in verdicts if v.property.group is group]
    tried = sum(_count_shares(v.property) for v in members if v.status is not Status.NOT_TRIED)
    held = sum(_count_shares(v.property) * _find_held_share(v) for v in members)
    return held / tried if tried else 0.0


def _find_held_share(verdict: Verdict) -> float:
    """Return the share of a property's cases on which it was found to hold."""
    if verdict.status is Status.NOT_ASKED:
        return verdict.asked
    return float(verdict.status is Status.PASSED)


def _spoils_group(prop: Property, failed: AbstractSet[Property]) -> bool:
    """Whether a group earns nothing because this essential property failed.

    A property that was not tried because of another group's failure has not failed.
    """
    others = (required for required in prop.requires if required.group is not prop.group)
    return prop.essential and failed.isdisjoint(others)


def charge_repair(record: SubmissionRecord, repair: RepairRecord) -> SubmissionRecord:
    """Return a record of an answer that was judged with a change, less the price of the change."""
    kept = 1 - repair.price / 100
    properties = tuple(replace(p, points=p.points * kept) for p in record.properties)
    return replace(record, properties=properties, repair=repair)


def score_again(
    record: SubmissionRecord,
    exercise: Exercise | None,
    points: Points | None,
    step: float,
    slip: float = SLIP,
) -> SubmissionRecord:
    """Return a record with new points for its verdicts, which stay the same.

    Without an exercise (for a class that belongs to none), only the rounding is new.
    """
    if exercise is not None and record.error is not None:
        return replace(record, max_score=compute_maximum(exercise, points))
    if exercise is not None:
        asked = exercise.at(Depth.USUAL if record.only_thorough else Depth.THOROUGH)
        record = replace(record, properties=_award_again(record, asked, points))
        if record.repair is not None:
            record = charge_repair(record, replace(record.repair, price=slip))
    if record.error is not None:
        return record
    return add_up(record, step)


def _award_again(
    record: SubmissionRecord, exercise: Exercise, points: Points | None
) -> tuple[PropertyRecord, ...]:
    from headcheck.properties.property import Verdict

    by_name = {prop.name: prop for prop in exercise.properties}
    verdicts = [
        Verdict(by_name[p.name], Status(p.status), asked=p.asked) for p in record.properties
    ]
    found = {by_name[name] for name in record.search.found} if record.search else set()
    value = distribute_points(exercise, points)
    earned = award_points(exercise, verdicts, points, found)
    return tuple(
        replace(p, points=got, max_points=value[by_name[p.name]])
        for p, got in zip(record.properties, earned, strict=True)
    )


def add_up(record: SubmissionRecord, step: float) -> SubmissionRecord:
    """Return a record whose score is the sum of its properties' points, rounded to a step."""
    most = sum(p.max_points for p in record.properties)
    score = round_points(sum(p.points for p in record.properties), most, step)
    return replace(record, score=score, max_score=round_sum(most))
