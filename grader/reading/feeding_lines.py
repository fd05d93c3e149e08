"""Find the lines that give a line its numbers and layers: assignments that compute no tensors.

The divisor of a line `scores / scale`, or the axis of its `self.softmax`, may be set elsewhere in
the function, or in another method of the class. Nothing is run.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from headcheck.grader.reading.cells import SubmissionSource

MAX_STEPS = 3
"""through how many assignments a number is followed"""
ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LAYERS = ("Linear", "Parameter", "Embedding", "ModuleList")
"""ends of the names of what holds weights"""
PLAIN = re.compile(
    r".*\.(shape|size\(\))|[\w.]+\.(shape\[-?\d\]|size\(-?\d\))|.*[dD]ropout\w*\(.*\)"
)
"""what takes sizes of a tensor, and dropout, which does nothing in evaluation"""
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


@dataclass(frozen=True, slots=True)
class _Setting:
    """An assignment: what it sets and reads, as names or as attributes of self."""

    first: int
    last: int
    sets: frozenset[str]
    reads: frozenset[str]
    is_layer: bool
    is_of_tensors: bool = False
    is_size: bool = False


@dataclass(frozen=True, slots=True)
class _CodeScope:
    """A function, with its assignments and returns, or a class, with those of its methods."""

    first: int
    last: int
    settings: tuple[_Setting, ...]
    statements: tuple[tuple[int, int, frozenset[str]], ...]
    returns: tuple[tuple[int, int], ...]
    is_class: bool


def find_neighbours(
    source: SubmissionSource, positions: Iterable[Position]
) -> list[LineNeighbours]:
    """Return what is known about each of these positions, on which tensors are computed."""
    lines: dict[int | None, set[int]] = {}
    for cell, line in positions:
        lines.setdefault(cell, set()).add(line)
    return [
        _find(_read_scopes(cell.text), cell.number, line, lines[cell.number])
        for cell in source.cells
        for line in sorted(lines.get(cell.number, ()))
    ]


def _find(
    scopes: tuple[_CodeScope, ...], cell: int | None, line: int, computed: Set[int]
) -> LineNeighbours:
    around = [scope for scope in scopes if scope.first <= line <= scope.last]
    functions = [scope for scope in around if not scope.is_class]
    if not functions:
        return LineNeighbours(cell, line, (), (), (), None)
    inner = max(functions, key=lambda scope: scope.first)
    reads = next((r for first, last, r in inner.statements if first <= line <= last), frozenset())
    found: list[_Setting] = []
    for _ in range(MAX_STEPS):
        new = [
            each
            for scope in around
            for each in scope.settings
            if each.sets & reads and each not in found
        ]
        new = [each for each in new if computed.isdisjoint(range(each.first, each.last + 1))]
        found += new
        reads = frozenset().union(*(each.reads for each in new if not each.is_layer))
    returns = [first for first, last in inner.returns if last >= line]
    fed_by = (each for each in found if not (each.is_layer or each.is_size))
    layers = (each for each in found if each.is_layer)
    sizes = (each for each in found if each.is_size)
    end = min(returns, default=None)
    return LineNeighbours(
        cell, line, _list_firsts(fed_by), _list_firsts(layers), _list_firsts(sizes), end
    )


def _list_firsts(settings: Iterable[_Setting]) -> tuple[int, ...]:
    return tuple(sorted({each.first for each in settings}))


@lru_cache(maxsize=16)
def _read_scopes(text: str) -> tuple[_CodeScope, ...]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    kinds = (*FUNCTIONS, ast.ClassDef)
    return tuple(_read_scope(node) for node in ast.walk(tree) if isinstance(node, kinds))


def _read_scope(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> _CodeScope:
    is_class = isinstance(node, ast.ClassDef)
    inner = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and each is not node]
    settings = [
        _read_setting(each)
        for each in inner
        if isinstance(each, ASSIGNMENTS) and not _takes_sizes(each.value)
    ]
    if not is_class:  # what computes tensors and was not run has no part
        settings = [each for each in settings if not each.is_of_tensors]
    loops = (each for each in inner if isinstance(each, ast.For | ast.AsyncFor))
    settings += [_read_loop(each) for each in loops]
    if is_class:
        own = {each.lineno for each in node.body}
        settings = [_name_as_attributes(each, each.first in own) for each in settings]
        settings = [each for each in settings if any("." in name for name in each.sets)]
    simple = [each for each in inner if not hasattr(each, "body")]
    returns = (each for each in simple if isinstance(each, ast.Return))
    return _CodeScope(
        node.lineno,
        node.end_lineno or node.lineno,
        tuple(settings),
        () if is_class else tuple((*_get_span(s), frozenset(_iter_names(s))) for s in simple),
        tuple(_get_span(each) for each in returns),
        is_class,
    )


def _is_alias(node: ast.stmt) -> bool:
    """Whether a local name becomes another name of the same thing, which may be the wrong one."""
    match node:
        case ast.Assign(targets=[ast.Name() | ast.Tuple()], value=ast.Name()):
            return True
    return False


def _takes_sizes(value: ast.expr | None) -> bool:
    """Whether an assignment takes sizes of a tensor, or begins an empty list."""
    if value is None or (isinstance(value, ast.List) and not value.elts):
        return True
    return bool(PLAIN.fullmatch(ast.unparse(value)))


def _is_size(value: ast.expr | None) -> bool:
    """Whether a value is an argument, or a quotient of arguments."""
    match value:
        case ast.Name():
            return True
        case ast.Attribute():
            return not ast.unparse(value).startswith("self.")  # a layer may be given two names
        case ast.Tuple(elts=parts):
            return all(map(_is_size, parts))
        case ast.BinOp(op=ast.FloorDiv()):
            return True
    return False


def _get_span(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno


def _read_setting(node: ast.stmt) -> _Setting:
    assert isinstance(node, ASSIGNMENTS), "the caller has looked"
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    sets = frozenset(name for each in targets for name in _iter_names(each, stored=True))
    reads = frozenset() if node.value is None else frozenset(_iter_names(node.value))
    text = "" if node.value is None else ast.unparse(node.value)
    is_size = _is_size(node.value) and not _is_alias(node)
    kinds = _makes_layer(node.value), "torch." in text, is_size
    return _Setting(*_get_span(node), sets, reads, *kinds)


def _read_loop(node: ast.For | ast.AsyncFor) -> _Setting:
    sets = frozenset(_iter_names(node.target, stored=True))
    return _Setting(node.lineno, node.lineno, sets, frozenset(_iter_names(node.iter)), False)


def _name_as_attributes(setting: _Setting, is_of_class: bool) -> _Setting:
    """Return an assignment in the body of a class with names by which methods read what it sets."""
    if not is_of_class:
        return setting
    return replace(setting, sets=frozenset(f"self.{name}" for name in setting.sets))


def _makes_layer(value: ast.expr | None) -> bool:
    calls = [] if value is None else [n for n in ast.walk(value) if isinstance(n, ast.Call)]
    names = (ast.unparse(each.func) for each in calls)
    return any(name.endswith(LAYERS) for name in names)


def _iter_names(node: ast.AST, *, stored: bool = False) -> Iterator[str]:
    """Yield the names, and the attributes of self, that code reads or sets."""
    kind = ast.Store if stored else ast.Load
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=context):
                if isinstance(context, kind):
                    yield f"self.{name}"
            case ast.Name(id=name, ctx=context) if isinstance(context, kind) and name != "self":
                yield name
