"""Groups of a course: what `groups`, `teams` and `alone` in a course file say.

groups = "groups.csv"              # a system's own file; or a table:
alone = "group"                    # or "own" or "better": what counts if a member hands in alone

[groups]
blue = ["s17", "s18"]

[teams]                            # groups that hand in under an id of their own, and that id
blue = "team-blue"
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headcheck.exercises.contract_checks import suggest
from headcheck.exercises.toml_lines import Place, Table


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
    teams: Mapping[str, str] = field(default_factory=dict)
    """the id under which a group hands in, by its name"""
    alone: AloneRule = AloneRule.GROUP


NO_GROUPS = GroupSettings()


def read_groups(table: Table, place: Place) -> GroupSettings:
    """Return the groups of a course file. Raises the type of error that `place` defines."""
    groups = table.get("groups", {})
    rule = _read_rule(table.get("alone", AloneRule.GROUP), place.enter("alone"))
    teams = _read_teams(table.get("teams", {}), groups, place.enter("teams"))
    if isinstance(groups, str):
        return GroupSettings(file=place.path.parent / groups, teams=teams, alone=rule)
    at = place.enter("groups")
    if not isinstance(groups, dict):
        raise at.fail_type(groups, 'a file, as in "groups.csv", or a table of groups and ids')
    if any(not name.strip() for name in groups):
        raise at.fail("a group has no name")
    members = {name: _read_members(ids, at.enter(name)) for name, ids in groups.items()}
    return GroupSettings(members, teams=teams, alone=rule)


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
        if not _is_id(each):
            raise place.fail(f'{each!r} is no id; write a list of ids, as in ["s17", "s18"]')
    return tuple(str(each).strip() for each in ids)


def _read_teams(teams: object, groups: object, place: Place) -> Mapping[str, str]:
    """Return the id under which each of these groups hands in."""
    if not isinstance(teams, dict):
        raise place.fail_type(teams, 'a table of groups and ids, as in blue = "team-blue"')
    owners: dict[str, str] = {}
    for name, who in teams.items():
        at = place.enter(name)
        if isinstance(groups, dict) and name not in groups:
            known = suggest(name, list(groups)) if groups else "the file has no groups"
            raise at.fail(f"there is no group {name!r}; {known}")
        if not _is_id(who):
            raise at.fail_type(who, 'the id under which the group hands in, as in "team-blue"')
        first = owners.setdefault(str(who).strip(), name)
        if first != name:
            raise at.fail(f"{who!r} is already the id of the group {first!r}")
    return {name: who for who, name in owners.items()}


def _is_id(value: object) -> bool:
    is_kind = isinstance(value, str | int) and not isinstance(value, bool)
    return is_kind and bool(str(value).strip())
