"""Find the lines that give a line its numbers and layers: assignments that compute no tensors.

The divisor of a line `scores / scale`, or the axis of its `self.softmax`, may be set elsewhere in
the function, or in another method of the class. Nothing is run.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from headcheck.grader.reading.cells import SubmissionSource

MAX_STEPS = 3
"""through how many assignments a number is followed"""
ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LAYERS = ("Linear", "Parameter", "Embedding", "ModuleList")
"""ends of the names of what holds weights"""
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
"""the fields of statements that hold statements"""
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
    statements: tuple[tuple[int, int, "_Statement"], ...]
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
    at = [each for first, last, each in inner.statements if first <= line <= last]
    reads = at[0].reads if at else frozenset()
    settings = [each for scope in around for each in scope.settings]
    settings = [each for each in settings if computed.isdisjoint(range(each.first, each.last + 1))]
    found: list[_Setting] = []
    for _ in range(MAX_STEPS):
        new = [each for each in settings if each.sets & reads and each not in found]
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
    found: list[_CodeScope] = []
    for node in tree.body:
        _read_statement(node, found)
    return tuple(found)


def _read_statement(node: ast.stmt, scopes: list[_CodeScope]) -> list["_Statement"]:
    """Return a statement and those in it, and add the functions and classes among them."""
    inner = [each for child in _iter_bodies(node) for each in _read_statement(child, scopes)]
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        scopes.append(_make_scope(node, inner))
    return [_Statement(node), *inner]


def _iter_bodies(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements that stand directly in another one."""
    for field in BODIES:
        for each in getattr(node, field, ()):
            if isinstance(each, ast.stmt):
                yield each
            else:
                yield from _iter_bodies(each)


@dataclass(frozen=True, eq=False)
class _Statement:
    """A statement, which is looked through once."""

    node: ast.stmt

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.node))

    @cached_property
    def setting(self) -> _Setting | None:
        """What it sets, if it is an assignment or a loop, and computes something."""
        node = self.node
        if isinstance(node, ast.For | ast.AsyncFor):
            sets = frozenset(_iter_names(ast.walk(node.target), stored=True))
            reads = frozenset(_iter_names(ast.walk(node.iter)))
            return _Setting(node.lineno, node.lineno, sets, reads, False)
        if not isinstance(node, ASSIGNMENTS) or _takes_sizes(node.value):
            return None
        inner = [] if node.value is None else list(ast.walk(node.value))
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        stored = (each for target in targets for each in ast.walk(target))
        sets = frozenset(_iter_names(stored, stored=True))
        is_of_tensors = any(isinstance(n, ast.Name) and n.id == "torch" for n in inner)
        is_size = _is_size(node.value) and not _is_alias(node)
        kinds = _makes_layer(inner), is_of_tensors, is_size
        return _Setting(*_get_span(node), sets, frozenset(_iter_names(inner)), *kinds)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(_iter_names(self.nodes))


def _make_scope(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, inner: Sequence[_Statement]
) -> _CodeScope:
    is_class = isinstance(node, ast.ClassDef)
    settings = [each.setting for each in inner if each.setting is not None]
    if is_class:
        own = {each.lineno for each in node.body}
        settings = [_name_as_attributes(each, each.first in own) for each in settings]
        settings = [each for each in settings if any("." in name for name in each.sets)]
    else:  # what computes tensors and was not run has no part
        settings = [each for each in settings if not each.is_of_tensors]
    simple = [each for each in inner if not hasattr(each.node, "body")]
    return _CodeScope(
        node.lineno,
        node.end_lineno or node.lineno,
        tuple(settings),
        () if is_class else tuple((*_get_span(s.node), s) for s in simple),
        tuple(_get_span(each.node) for each in simple if isinstance(each.node, ast.Return)),
        is_class,
    )


def _is_alias(node: ast.stmt) -> bool:
    """Whether a local name becomes another name of the same thing, which may be the wrong one."""
    match node:
        case ast.Assign(targets=[ast.Name() | ast.Tuple()], value=ast.Name()):
            return True
    return False


def _takes_sizes(value: ast.expr | None) -> bool:
    """Whether an assignment takes sizes of a tensor, begins an empty list, or calls dropout.

    Dropout does nothing in evaluation.
    """
    match value:
        case None | ast.List(elts=[]) | ast.Attribute(attr="shape"):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant() | ast.UnaryOp()):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[] | [ast.Constant() | ast.UnaryOp()]):
            return True
        case ast.Call():
            return any("ropout" in name for name in _iter_called(ast.walk(value)))
    return False


def _is_size(value: ast.expr | None) -> bool:
    """Whether a value is an argument, or a quotient of arguments."""
    match value:
        case ast.Name():
            return True
        case ast.Attribute(value=ast.Name(id="self")):
            return False  # a layer may be given two names
        case ast.Attribute():
            return True
        case ast.Tuple(elts=parts):
            return all(map(_is_size, parts))
        case ast.BinOp(op=ast.FloorDiv()):
            return True
    return False


def _get_span(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno


def _name_as_attributes(setting: _Setting, is_of_class: bool) -> _Setting:
    """Return an assignment in the body of a class with names by which methods read what it sets."""
    if not is_of_class:
        return setting
    return replace(setting, sets=frozenset(f"self.{name}" for name in setting.sets))


def _makes_layer(nodes: Iterable[ast.AST]) -> bool:
    return any(name.endswith(LAYERS) for name in _iter_called(nodes))


def _iter_called(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of the functions that are called, without what they belong to."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                yield name


def _iter_names(nodes: Iterable[ast.AST], *, stored: bool = False) -> Iterator[str]:
    """Yield the names, and the attributes of self, that code reads or sets."""
    kind = ast.Store if stored else ast.Load
    for inner in nodes:
        if isinstance(inner, ast.Name):
            if isinstance(inner.ctx, kind) and inner.id != "self":
                yield inner.id
        elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, kind) and _is_own(inner):
            yield f"self.{inner.attr}"


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
