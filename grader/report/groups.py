"""Groups of a course: what `groups` and `alone` in a course file say.

groups = "groups.csv"              # a system's own file; or a table:
alone = "group"                    # or "own" or "better": what counts if a member hands in alone

[groups]
blue = ["s17", "s18"]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headcheck.exercises.contract_checks import suggest
from headcheck.exercises.toml_lines import Place


class AloneRule(StrEnum):
    """What counts for a member of a group who handed in something else as well."""

    GROUP = "group"
    OWN = "own"
    BETTER = "better"


@dataclass(frozen=True)
class GroupSettings:
    """The groups as the course file names them."""

    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """ids by the name of the group"""
    file: Path | None = None
    """the file that lists the groups instead"""
    alone: AloneRule = AloneRule.GROUP


NO_GROUPS = GroupSettings()


def read_groups(groups: object, alone: object, place: Place) -> GroupSettings:
    """Return the groups of a course file. Raises the type of error that `place` defines."""
    rule = _read_rule(alone, place.enter("alone"))
    if isinstance(groups, str):
        return GroupSettings(file=place.path.parent / groups, alone=rule)
    at = place.enter("groups")
    if not isinstance(groups, dict):
        raise at.fail_type(groups, 'a file, as in "groups.csv", or a table of groups and ids')
    if any(not name.strip() for name in groups):
        raise at.fail("a group has no name")
    members = {name: _read_members(ids, at.enter(name)) for name, ids in groups.items()}
    return GroupSettings(members, alone=rule)


def _read_rule(value: object, place: Place) -> AloneRule:
    rules = [each.value for each in AloneRule]
    if isinstance(value, str) and value in rules:
        return AloneRule(value)
    raise place.fail(f"there is no rule {value!r}; {suggest(str(value), rules)}")


def _read_members(ids: object, place: Place) -> tuple[str, ...]:
    """Return the ids of a group; numbers may be written without quotes."""
    if not isinstance(ids, list):
        raise place.fail_type(ids, 'a list of ids, as in ["s17", "s18"]')
    for each in ids:
        if not isinstance(each, str | int) or isinstance(each, bool) or not str(each).strip():
            raise place.fail(f'{each!r} is no id; write a list of ids, as in ["s17", "s18"]')
    return tuple(str(each).strip() for each in ids)
