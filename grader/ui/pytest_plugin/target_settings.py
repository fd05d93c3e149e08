"""The settings of the code under test, in options or in `[tool.headcheck.targets]` of a project.

    [tool.headcheck.targets."mypkg.attn:Attention"]
    contract = "attention.contract.toml"
    sizes = "head_dim=even tokens<=64"

The path of a contract starts at the folder of pyproject.toml.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headcheck.exercises.toml_lines import Place, parse, read_text
from headcheck.grader.ui.pytest_plugin.locate import suggest

PYPROJECT = "pyproject.toml"
KEYS = ("contract", "exercise", "sizes", "course")
PATHS = ("contract", "course")
"""the settings that are paths from the folder of pyproject.toml"""
"""the possible settings of a target"""
DEMANDS = ("contract", "exercise")
"""the settings that choose the contract of a target: at most one of them"""


class BadTarget(Exception):
    """The settings of a target are invalid; the one-line message names where they were set."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A text, and where it was set: an option, or a key of pyproject.toml."""

    text: str
    place: str

    def fail(self, problem: object) -> BadTarget:
        return BadTarget(f"{self.place}: {problem}")


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """The settings of one target. Without a contract or exercise, its contract is recognised."""

    name: Setting
    """`package.module:Name` or `path/to/file.py:Name`"""
    contract: Setting | None = None
    """a contract file, or the folder that has it"""
    exercise: Setting | None = None
    """the slug of an exercise, or its folder"""
    sizes: Setting | None = None
    course: Setting | None = None
    """a course file, which says how much is told"""

    def override(self, options: Mapping[str, Setting]) -> "TargetSettings":
        """Return these settings with the given options, which take precedence."""
        known = replace(self, contract=None, exercise=None) if {*DEMANDS} & {*options} else self
        return replace(known, **options)


def combine(
    names: Sequence[str], options: Mapping[str, Setting], known: Mapping[str, TargetSettings]
) -> list[TargetSettings]:
    """Return the settings of these names, without duplicates. Raises BadTarget."""
    names = list(dict.fromkeys(names))
    if len(names) > 1 and options:
        said = next(iter(options.values()))
        where = "write it for each in [tool.headcheck.targets]"
        raise said.fail(f"is of one implementation, and {len(names)} are named: {where}")
    unknown = (TargetSettings(Setting(name, "--headcheck")) for name in names)
    return [known.get(new.name.text, new).override(options) for new in unknown]


def read_targets(folder: Path) -> Mapping[str, TargetSettings]:
    """Return the targets of the project in a folder, by name. Raises BadTarget."""
    path = folder / PYPROJECT
    if not path.exists():
        return {}
    project = parse(Place(path, read_text(path, "is gone", BadTarget), error=BadTarget))
    ours = _get_table(_get_table(project, "tool", "tool"), "headcheck", "tool.headcheck")
    _refuse_unknown(ours, ("targets",), "tool.headcheck")
    targets = _get_table(ours, "targets", "tool.headcheck.targets")
    return {name: _read_target(targets, name, folder) for name in targets}


def _read_target(targets: Mapping[str, Any], name: str, folder: Path) -> TargetSettings:
    keys = f'tool.headcheck.targets."{name}"'
    table = _get_table(targets, name, keys)
    _refuse_unknown(table, KEYS, keys)
    said = {}
    for key, text in table.items():
        place = f"{PYPROJECT}: {keys}.{key}"
        if not isinstance(text, str):
            raise BadTarget(f"{place}: must be a text in quotes, not {str(text)[:60]}")
        said[key] = Setting(str(folder / text) if key in PATHS else text, place)
    return TargetSettings(Setting(name, f"{PYPROJECT}: {keys}"), **said)


def _get_table(table: Mapping[str, Any], key: str, keys: str) -> Mapping[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise BadTarget(f"{PYPROJECT}: {keys}: must be a table, not {str(found)[:60]}")
    return found


def _refuse_unknown(table: Mapping[str, Any], known: Collection[str], keys: str) -> None:
    for key in table:
        if key not in known:
            hint = suggest(key, known) or f"; there are {', '.join(known)}"
            raise BadTarget(f"{PYPROJECT}: {keys}.{key}: there is no such key{hint}")
