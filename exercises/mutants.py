"""Wrong answers made by a machine: every small change of a solution, one at a time.

The banks hold what people get wrong; these hold what could be wrong at every place of a solution:
an operator, a number, a dimension, two names exchanged, a call or a line left out. A few change
nothing that could be seen from outside. Those are listed in `equivalents.toml` beside the solution,
each with its reason.
"""

import ast
import copy
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from exercises.exercise import Exercise

OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
}
COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
BESIDE = (("queries", "keys", "values"), ("query", "key", "value"), ("q", "k", "v"))
"""Names with these words in them stand for one another."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A solution with one change."""

    name: str
    """what was changed, in the words of the code; the same as long as that code is"""
    source: str


@dataclass(frozen=True, slots=True)
class _Change:
    """Something to be put in the place of a node; None leaves it out."""

    says: str
    node: ast.AST | None


def mutants(exercise: Exercise) -> list[Mutant]:
    """All mutants of a solution that are other code, in the order of the source."""
    tree = _without_docstrings(ast.parse(exercise.solution))
    original = ast.unparse(tree)
    seen: Counter[str] = Counter()
    found: dict[str, Mutant] = {}
    for place, says, change in _places(tree):
        source = _changed(tree, place, change)
        if source == original or source in found:
            continue
        seen[says] += 1
        name = says if seen[says] == 1 else f"{says} ({seen[says]})"
        found[source] = Mutant(name, source)
    return list(found.values())


def equivalents(exercise: Exercise) -> dict[str, str]:
    """The mutants that do what the solution does, and why."""
    path = exercise.folder / "equivalents.toml"
    if not path.exists():
        return {}
    return {str(k): str(v) for k, v in tomllib.loads(path.read_text(encoding="utf-8")).items()}


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


# ---------------------------------------------------------------------------------- places

Place = tuple[tuple[str, int | None], ...]
"""A path from the root of the tree: fields, and indices in those that are lists."""


def _places(tree: ast.Module) -> Iterator[tuple[Place, str, ast.AST | None]]:
    """Every change at every place inside a function."""
    for place, node, inside in _walk(tree, (), None):
        if inside is not None:
            for change in _changes(node):
                yield place, f"{inside}: {change.says}", change.node


def _walk(
    node: ast.AST, place: Place, inside: str | None
) -> Iterator[tuple[Place, ast.AST, str | None]]:
    yield place, node, inside
    if isinstance(node, ast.FunctionDef):
        inside = node.name
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(
            node, ast.Call
        ):
            continue  # types and signatures are not what is computed
        if isinstance(value, ast.AST):
            yield from _walk(value, (*place, (field, None)), inside)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _walk(item, (*place, (field, index)), inside)


def _changed(tree: ast.Module, place: Place, change: ast.AST | None) -> str:
    """The source with what stands at a place replaced."""
    made = copy.deepcopy(tree)
    *before, (field, index) = place
    parent: ast.AST = made
    for name, at in before:
        value = getattr(parent, name)
        parent = value if at is None else value[at]
    if index is None:
        setattr(parent, field, change)
    else:
        getattr(parent, field)[index : index + 1] = [ast.Pass() if change is None else change]
    return ast.unparse(ast.fix_missing_locations(made))


# --------------------------------------------------------------------------------- changes


def _changes(node: ast.AST) -> Iterator[_Change]:
    for kind, change in CHANGES.items():
        if isinstance(node, kind):
            yield from change(node)


def _replaced(node: ast.AST, other: ast.AST) -> _Change:
    return _Change(f"{ast.unparse(node)} -> {ast.unparse(other)}", other)


def _of_operation(node: ast.BinOp) -> Iterator[_Change]:
    if type(node.op) in OPERATORS:
        yield _replaced(node, ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))
    yield _replaced(node, node.left)
    if isinstance(node.op, ast.MatMult | ast.Sub | ast.Div):
        yield _replaced(node, ast.BinOp(node.right, node.op, node.left))


def _of_comparison(node: ast.Compare) -> Iterator[_Change]:
    if type(node.ops[0]) in COMPARISONS:
        other = COMPARISONS[type(node.ops[0])]()
        yield _replaced(node, ast.Compare(node.left, [other], node.comparators))


def _of_constant(node: ast.Constant) -> Iterator[_Change]:
    value = node.value
    if isinstance(value, bool):
        yield _replaced(node, ast.Constant(not value))
    elif isinstance(value, int):
        yield from (_replaced(node, ast.Constant(value + step)) for step in (1, -1))
    elif isinstance(value, float):
        yield from (_replaced(node, ast.Constant(value * factor)) for factor in (2, 0.5))
    elif value == "-inf":
        yield from (_replaced(node, ast.Constant(other)) for other in ("inf", "0", "-1"))


def _of_sign(node: ast.UnaryOp) -> Iterator[_Change]:
    yield _replaced(node, node.operand)


def _of_call(node: ast.Call) -> Iterator[_Change]:
    is_method = isinstance(node.func, ast.Attribute) and not _is_a_module(node.func.value)
    if is_method and isinstance(node.func, ast.Attribute):
        yield _replaced(node, node.func.value)
    elif node.args:
        yield _replaced(node, node.args[0])
    if len(node.args) >= 2 and not _is_symmetric(node):
        first, second, *rest = node.args
        yield _replaced(node, ast.Call(node.func, [second, first, *rest], node.keywords))
    for left_out in node.keywords:
        kept = [keyword for keyword in node.keywords if keyword is not left_out]
        yield _replaced(node, ast.Call(node.func, node.args, kept))


def _is_symmetric(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in ("transpose", "swapaxes")


def _is_a_module(node: ast.expr) -> bool:
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in ("torch", "nn", "F", "math", "self")


def _of_name(node: ast.Name) -> Iterator[_Change]:
    if isinstance(node.ctx, ast.Load):
        yield from (_replaced(node, ast.Name(other, node.ctx)) for other in _others(node.id))


def _of_attribute(node: ast.Attribute) -> Iterator[_Change]:
    if isinstance(node.ctx, ast.Load):
        others = _others(node.attr)
        yield from (_replaced(node, ast.Attribute(node.value, o, node.ctx)) for o in others)


def _others(name: str) -> Iterator[str]:
    """The names that stand beside one: keys and values beside queries."""
    for triple in BESIDE:
        for word in triple:
            if re.search(rf"(^|_){word}($|_)", name):
                yield from (name.replace(word, other) for other in triple if other != word)


def _of_statement(node: ast.stmt) -> Iterator[_Change]:
    simple = isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.If)
    if simple and "super().__init__" not in ast.unparse(node):
        yield _Change(f"without {ast.unparse(node).splitlines()[0]}", None)


CHANGES: Mapping[type[ast.AST], Callable[..., Iterator[_Change]]] = {
    ast.BinOp: _of_operation,
    ast.Compare: _of_comparison,
    ast.Constant: _of_constant,
    ast.UnaryOp: _of_sign,
    ast.Call: _of_call,
    ast.Name: _of_name,
    ast.Attribute: _of_attribute,
    ast.stmt: _of_statement,
}
