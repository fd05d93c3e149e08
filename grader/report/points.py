"""From verdicts to points: what a mistake costs grows with how much of the exercise it breaks.

The points of a group are shared evenly by its properties. Nothing earns anything unless tokens
attend, and nothing of a group if what the group is about does not hold: hidden tokens that are seen
are not half right because some other claim about them holds.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from exercises import BY_SLUG, Exercise
from properties.group import PropertyGroup
from properties.violation import Status

if TYPE_CHECKING:  # so that reading a store does not import torch
    from properties.property import Property, Verdict

Points = Mapping[str, Mapping[str, float]]


class BadPoints(Exception):
    """An invalid points file; the message says where and why."""


def load_points(path: Path, exercise: Exercise | None = None) -> Points:
    """Load the points of groups from TOML: a table per exercise, a number per group.

    `exercise` is one that may stand there without being one of ours. Raises BadPoints.
    """
    known = BY_SLUG.keys() | ({exercise.slug} if exercise else set())
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadPoints(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadPoints(f"{path}: is not TOML: {error}") from None
    for slug, groups in table.items():
        if slug not in known:
            raise BadPoints(f"{path}: there is no exercise {slug!r}; see `headcheck list`")
        if not isinstance(groups, dict):
            raise BadPoints(f"{path}: [{slug}] must be a table of groups and points")
        for group, points in groups.items():
            if group not in {g.value for g in PropertyGroup}:
                names = ", ".join(g.value for g in PropertyGroup)
                raise BadPoints(f"{path}: [{slug}] has no group {group!r}; there are {names}")
            number = isinstance(points, int | float) and not isinstance(points, bool)
            if not number or not 0 <= points < math.inf:
                raise BadPoints(f"{path}: [{slug}] {group} must be a number of at least 0")
    return table


def distribute_points(exercise: Exercise, points: Points | None) -> dict[Property, float]:
    """Return the points of each property of an exercise."""
    overrides = (points or {}).get(exercise.slug, {})
    groups: dict[PropertyGroup, list[Property]] = {}
    for prop in exercise.properties:
        groups.setdefault(prop.group, []).append(prop)
    return {
        prop: overrides.get(group.value, exercise.get_points(group)) / len(members)
        for group, members in groups.items()
        for prop in members
    }


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
    if exercise.prerequisite not in held:
        return [0.0] * len(verdicts)
    essential = (v.property for v in verdicts if v.property.essential)
    worthless = {prop.group for prop in essential if prop not in held}
    earns = (v.status is Status.PASSED and v.property.group not in worthless for v in verdicts)
    return [value[v.property] if earned else 0.0 for v, earned in zip(verdicts, earns, strict=True)]
