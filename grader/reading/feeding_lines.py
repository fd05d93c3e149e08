"""Find the lines that give a line its numbers and layers: assignments that compute no tensors.

The divisor of a line `scores / scale`, or the axis of its `self.softmax`, may be set elsewhere in
the function, or in another method of the class. Nothing is run.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.code_scopes import CodeScope, NameSetting, iter_names, read_scopes

MAX_STEPS = 3
"""through how many assignments a number is followed"""
Position = tuple[int | None, int]


@dataclass(frozen=True, slots=True)
class LineNeighbours:
    """What a line rests on besides tensors, and where its function returns next."""

    cell: int | None
    line: int
    fed_by: tuple[int, ...]
    """the lines that set the numbers and modules that it reads"""
    layers: tuple[int, ...]
    """the lines that make the layers that it calls"""
    sizes: tuple[int, ...]
    """the lines that set the sizes that it reads, such as the number of heads"""
    returns: int | None
    """the next line of its function that returns something"""
    conditions: tuple[int, ...] = ()
    """the line of the innermost condition under which it is run, if there is one"""


def find_neighbours(
    source: SubmissionSource, positions: Iterable[Position]
) -> list[LineNeighbours]:
    """Return what is known about each of these positions, on which tensors are computed."""
    lines: dict[int | None, set[int]] = {}
    for cell, line in positions:
        lines.setdefault(cell, set()).add(line)
    return [
        _find(read_scopes(cell.text), cell.number, line, lines[cell.number])
        for cell in source.cells
        for line in sorted(lines.get(cell.number, ()))
    ]


def find_returns(source: SubmissionSource, position: Position) -> list[Position]:
    """Return the lines on which the function that begins on a line returns something."""
    cells = (cell for cell in source.cells if cell.number == position[0])
    scopes = (each for cell in cells for each in read_scopes(cell.text))
    own = [each for each in scopes if not each.is_class and each.first == position[1]]
    return [(position[0], first) for scope in own for first, _ in scope.returns]


def _find(
    scopes: tuple[CodeScope, ...], cell: int | None, line: int, computed: Set[int]
) -> LineNeighbours:
    around = [scope for scope in scopes if scope.first <= line <= scope.last]
    functions = [scope for scope in around if not scope.is_class]
    if not functions:
        return LineNeighbours(cell, line, (), (), (), None)
    inner = max(functions, key=lambda scope: scope.first)
    at = [each for first, last, each in inner.statements if first <= line <= last]
    reads = at[0].reads if at else frozenset()
    settings = [each for scope in around for each in scope.settings]
    # Helpers, in which no tensors are computed, may compute numbers.
    plain = (s for s in scopes if s.numbers and computed.isdisjoint(range(s.first, s.last + 1)))
    settings += [each for scope in plain for each in scope.numbers]
    found = _follow(settings, reads, computed)
    returns = [first for first, last in inner.returns if last >= line]
    fed_by = (each for each in found if not (each.is_layer or each.is_size))
    layers = (each for each in found if each.is_layer)
    sizes = (each for each in found if each.is_size)
    end = min(returns, default=None)
    conditions = [first for first, last in inner.conditions if first < line <= last]
    firsts = _list_firsts(fed_by), _list_firsts(layers), _list_firsts(sizes)
    return LineNeighbours(cell, line, *firsts, end, tuple(conditions[-1:]))


def _follow(
    settings: Iterable[NameSetting], reads: frozenset[str], computed: Set[int]
) -> list[NameSetting]:
    """Return what sets names, without tensors; behind tensors, only numbers of Python count."""
    alone: dict[bool, list[NameSetting]] = {True: [], False: []}
    for each in settings:
        alone[computed.isdisjoint(range(each.first, each.last + 1))].append(each)
    found: list[NameSetting] = []
    behind = frozenset[str]()
    for _ in range(MAX_STEPS):
        new = [each for each in alone[True] if each.sets & reads]
        new += [each for each in alone[False] if each.is_number and each.sets & (reads | behind)]
        new = [each for each in new if each not in found]
        found += new
        passed = (each.reads for each in alone[False] if each.sets & (reads | behind))
        behind = frozenset().union(*passed)
        reads = frozenset().union(*(each.reads for each in new if not each.is_layer))
    return found


def find_setting_lines(source: SubmissionSource, path: str) -> list[Position]:
    """Return the lines that set the attribute that holds a weight, by its path.

    A layer may be switched by an argument that is true or false by default: its line is one, too.
    """
    return [(number, line) for number, each in _find_settings(source, path) for line in each.lines]


def find_sharing_lines(source: SubmissionSource, paths: Iterable[str]) -> list[Position]:
    """Return the lines that set attributes that hold one weight: those that give it another name.

    If there are none, all lines that set them are returned.
    """
    found = [each for path in paths for each in _find_settings(source, path)]
    aliases = [(number, each) for number, each in found if each.is_alias]
    return sorted({(number, each.lines[0]) for number, each in aliases or found})


def _find_settings(
    source: SubmissionSource, path: str
) -> list[tuple[int | None, "_AttributeSetting"]]:
    """Return the statements that set the attribute that holds a weight, with their cells."""
    names = path.split(".")
    if len(names) > 1 and names[-1] in ("weight", "bias"):
        names.pop()  # a layer's own
    for name in reversed(names):
        found = [
            (cell.number, each)
            for cell in source.cells
            for each in _read_attributes(cell.text)
            if each.name == name
        ]
        if found:
            return found
    return []


@dataclass(frozen=True, slots=True)
class _AttributeSetting:
    """A statement that sets an attribute of something."""

    name: str
    lines: tuple[int, ...]
    """its line, and those of the arguments that are true or false by default and that it reads"""
    is_alias: bool
    """whether it calls nothing"""


@lru_cache(maxsize=16)
def _read_attributes(text: str) -> tuple[_AttributeSetting, ...]:
    return tuple(
        each
        for scope in read_scopes(text)
        if not scope.is_class
        for _, _, statement in scope.statements
        for each in _iter_attributes(statement.node, dict(scope.switches))
    )


def _iter_attributes(node: ast.stmt, switches: Mapping[str, int]) -> Iterator[_AttributeSetting]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    stored = [n for each in targets for n in ast.walk(each) if isinstance(n, ast.Attribute)]
    stored = [each for each in stored if isinstance(each.ctx, ast.Store)]
    if not isinstance(node, ast.Assign) or not stored:
        return
    inner = list(ast.walk(node.value))
    lines = node.lineno, *(switches[name] for name in iter_names(inner) if name in switches)
    is_alias = not any(isinstance(each, ast.Call) for each in inner)
    for each in stored:
        yield _AttributeSetting(each.attr, lines, is_alias)


def _list_firsts(settings: Iterable[NameSetting]) -> tuple[int, ...]:
    return tuple(sorted({each.first for each in settings}))
