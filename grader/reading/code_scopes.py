"""Read functions and classes as text: which statements set and read which names, and where."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LAYERS = ("Linear", "Parameter", "Embedding", "ModuleList")
"""ends of the names of what holds weights"""
NUMBERS = ("int", "slice", "item", "tolist", "range")
"""functions that make numbers of Python"""
MADE = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "float32", "float64", "float"})
"""attributes of torch with which numbers of Python become tensors"""
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
"""the fields of statements that hold statements"""


@dataclass(frozen=True, slots=True)
class NameSetting:
    """An assignment: what it sets and reads, as names or as attributes of self."""

    first: int
    last: int
    sets: frozenset[str]
    reads: frozenset[str]
    is_layer: bool
    is_of_tensors: bool = False
    is_size: bool = False
    is_number: bool = False
    """whether it makes numbers of Python, perhaps of tensors"""


@dataclass(frozen=True, slots=True)
class CodeScope:
    """A function, with its assignments and returns, or a class, with those of its methods."""

    first: int
    last: int
    settings: tuple[NameSetting, ...]
    statements: tuple[tuple[int, int, "ParsedStatement"], ...] = ()
    """those that hold no others, with their first and last lines"""
    returns: tuple[tuple[int, int], ...] = ()
    is_class: bool = False
    conditions: tuple[tuple[int, int], ...] = ()
    """the first and last lines of what is run only if something holds"""
    numbers: tuple[NameSetting, ...] = ()
    """what computes numbers of Python in a function, each as if it set the function"""
    switches: tuple[tuple[str, int], ...] = ()
    """the arguments that are true or false by default, with their lines"""


@lru_cache(maxsize=16)
def read_scopes(text: str) -> tuple[CodeScope, ...]:
    """Return the functions and classes of a source; none if it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    found: list[CodeScope] = []
    for node in tree.body:
        _read_statement(node, found)
    return tuple(found)


def _read_statement(node: ast.stmt, scopes: list[CodeScope]) -> list["ParsedStatement"]:
    """Return a statement and those in it, and add the functions and classes among them."""
    inner = [each for child in _iter_bodies(node) for each in _read_statement(child, scopes)]
    if isinstance(node, ast.ClassDef):
        scopes.append(_make_class(node, inner))
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        scopes.append(_make_function(node, inner))
    return [ParsedStatement(node), *inner]


def _iter_bodies(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements that stand directly in another one."""
    for field in BODIES:
        for each in getattr(node, field, ()):
            if isinstance(each, ast.stmt):
                yield each
            else:
                yield from _iter_bodies(each)


@dataclass(frozen=True, eq=False)
class ParsedStatement:
    """A statement, which is looked through once."""

    node: ast.stmt

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.node))

    @cached_property
    def setting(self) -> NameSetting | None:
        """What it sets, if it is an assignment or a loop, and computes something."""
        node = self.node
        if isinstance(node, ast.For | ast.AsyncFor):
            sets = frozenset(iter_names(ast.walk(node.target), stored=True))
            reads = frozenset(iter_names(ast.walk(node.iter)))
            return NameSetting(node.lineno, node.lineno, sets, reads, False)
        if not isinstance(node, ASSIGNMENTS) or _takes_sizes(node.value):
            return None
        inner = [] if node.value is None else list(ast.walk(node.value))
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        stored = (each for target in targets for each in ast.walk(target))
        sets = frozenset(iter_names(stored, stored=True))
        is_of_tensors = any(isinstance(n, ast.Name) and n.id == "torch" for n in inner)
        is_size = _is_size(node.value) and not _is_alias(node)
        called = list(_iter_called(inner))
        is_layer = any(name.endswith(LAYERS) for name in called)
        kinds = is_layer, is_of_tensors, is_size, any(name in NUMBERS for name in called)
        return NameSetting(*_get_span(node), sets, frozenset(iter_names(inner)), *kinds)

    @property
    def computes_numbers(self) -> bool:
        """Whether it computes a number, or sets one, without torch but for a tensor made of it."""
        made = {id(n.value) for n in self.nodes if isinstance(n, ast.Attribute) and n.attr in MADE}
        names = (n for n in self.nodes if isinstance(n, ast.Name) and n.id in ("torch", "nn"))
        if any(id(name) not in made for name in names):
            return False
        setting = self.setting
        sets = setting is not None and any(isinstance(n, ast.Constant) for n in self.nodes)
        return sets or any(isinstance(n, ast.BinOp) for n in self.nodes)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(iter_names(self.nodes))


def _make_class(node: ast.ClassDef, inner: Sequence[ParsedStatement]) -> CodeScope:
    own = {each.lineno for each in node.body}
    settings: list[NameSetting] = []
    for each in (statement.setting for statement in inner):
        if each is not None:  # methods read what stands in the body of the class as attributes
            sets = {f"self.{name}" for name in each.sets} if each.first in own else each.sets
            if any("." in name for name in sets):
                settings.append(replace(each, sets=frozenset(sets)))
    return CodeScope(*_get_span(node), tuple(settings), is_class=True)


def _make_function(node: FunctionNode, inner: Sequence[ParsedStatement]) -> CodeScope:
    settings = (each.setting for each in inner if each.setting is not None)
    simple = [each for each in inner if not hasattr(each.node, "body")]
    return CodeScope(
        *_get_span(node),
        # What computes tensors and was not run has no part.
        settings=tuple(each for each in settings if not each.is_of_tensors),
        statements=tuple((*_get_span(each.node), each) for each in simple),
        returns=tuple(_get_span(each.node) for each in simple if isinstance(each.node, ast.Return)),
        conditions=tuple(
            sorted(_get_span(each.node) for each in inner if isinstance(each.node, ast.If))
        ),
        numbers=_list_numbers(node.name, simple),
        switches=tuple(_iter_switches(node.args)),
    )


def _iter_switches(arguments: ast.arguments) -> Iterator[tuple[str, int]]:
    """Yield the arguments that are true or false by default, with their lines."""
    given = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(reversed(given), reversed(arguments.defaults), strict=False))
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    for argument, default in (*pairs, *named):
        if isinstance(default, ast.Constant) and isinstance(default.value, bool):
            yield argument.arg, argument.lineno


def _list_numbers(name: str, simple: Iterable["ParsedStatement"]) -> tuple[NameSetting, ...]:
    """Return the statements of a function that compute numbers of Python."""
    sets = frozenset({name, f"self.{name}"})
    computing = (each for each in simple if each.computes_numbers)
    return tuple(NameSetting(*_get_span(s.node), sets, frozenset(), False) for s in computing)


def _is_alias(node: ast.stmt) -> bool:
    """Whether a local name becomes another name of the same thing, which may be the wrong one."""
    match node:
        case ast.Assign(targets=[ast.Name() | ast.Tuple()], value=ast.Name()):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=given)], value=ast.Tuple(elts=taken)):
            return sorted(map(ast.unparse, given)) == sorted(map(ast.unparse, taken))
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


def _iter_called(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of the functions that are called, without what they belong to."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                yield name


def iter_names(nodes: Iterable[ast.AST], *, stored: bool = False) -> Iterator[str]:
    """Yield the names, and the attributes of self, that code reads or sets."""
    kind = ast.Store if stored else ast.Load
    for inner in nodes:
        match inner:
            case ast.Name(id=name, ctx=ctx) if isinstance(ctx, kind) and name != "self":
                yield name
            case ast.Attribute(ast.Name(id="self"), name, ctx) if isinstance(ctx, kind):
                yield f"self.{name}"
