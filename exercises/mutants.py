"""Wrong answers made by a machine: every small change of a solution, one at a time.

The banks hold what people get wrong; these hold what could be wrong at every place of a solution:
an operator, a number, a dimension, two names exchanged, a call or a line left out. What is given to
the student is left as it is. A few changes are nothing that could be told from outside. Those are
listed in `equivalents.toml` beside the solution, with the reasons:

    [[equivalent]]
    mutants = ["forward: keys -> queries (2)"]
    reason = "queries are as wide as keys"
"""

import ast
import copy
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exercises.exercise import Exercise
from exercises.starter import BEGIN, END

REPLACED_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
}
REPLACED_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
INTERCHANGEABLE_NAMES = (("queries", "keys", "values"), ("query", "key", "value"), ("q", "k", "v"))
"""Names with these words in them stand for one another."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A solution with one change."""

    name: str
    """what was changed, in the words of the code; the same as long as that code is"""
    source: str


@dataclass(frozen=True, slots=True)
class _Mutation:
    """Something to be put in the place of a node; None leaves it out."""

    description: str
    node: ast.AST | None


def generate_mutants(exercise: Exercise) -> list[Mutant]:
    """All mutants of a solution that are other code, in the order of the source."""
    tree = _strip_docstrings(ast.parse(exercise.solution))
    original = ast.unparse(tree)
    seen: Counter[str] = Counter()
    found: dict[str, Mutant] = {}
    for node_path, description, change in _iterate_mutations(
        tree, _find_student_lines(exercise.solution)
    ):
        source = _apply_mutation(tree, node_path, change)
        if source == original or source in found:
            continue
        seen[description] += 1
        name = description if seen[description] == 1 else f"{description} ({seen[description]})"
        found[source] = Mutant(name, source)
    return list(found.values())


def load_equivalents(exercise: Exercise) -> dict[str, str]:
    """The mutants that nobody could tell from the solution by what is demanded, and why.

    Raises ValueError when `equivalents.toml` cannot be read, or names what is no mutant.
    """
    path = exercise.folder / "equivalents.toml"
    if not path.exists():
        return {}
    known = {mutant.name for mutant in generate_mutants(exercise)}
    found: dict[str, str] = {}
    for names, reason in _read_entries(path):
        for name in names:
            if name not in known:
                raise ValueError(f"{path}: no mutant is called {name!r}. Was the solution changed?")
            if name in found:
                raise ValueError(f"{path}: {name!r} is listed twice. Keep one of its reasons.")
            found[name] = reason
    return found


def _read_entries(path: Path) -> Iterator[tuple[list[str], str]]:
    """Every entry's mutants and their reason."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}. It must be TOML, in UTF-8.") from error
    match entries:
        case {"equivalent": list(listed), **others} if not others:
            yield from (_parse_entry(path, entry) for entry in listed)
        case _:
            raise ValueError(f"{path}: it must hold [[equivalent]] entries and nothing else.")


def _parse_entry(path: Path, entry: Any) -> tuple[list[str], str]:
    match entry:
        case {"mutants": [str(), *_] as names, "reason": str(reason), **others} if (
            not others and all(isinstance(name, str) for name in names) and reason.strip()
        ):
            return names, reason
    raise ValueError(
        f"{path}: an entry must have `mutants`, a list of their names, and a `reason`, and nothing "
        f"else. This one is {entry!r}."
    )


def _find_student_lines(source: str) -> set[int]:
    """The numbers of the lines that the student writes."""
    numbers: set[int] = set()
    inside = False
    for number, line in enumerate(source.splitlines(), start=1):
        inside = line.strip() == BEGIN or (inside and line.strip() != END)
        if inside:
            numbers.add(number)
    return numbers


def _strip_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


# ---------------------------------------------------------------------------------- places

NodePath = tuple[tuple[str, int | None], ...]
"""A path from the root of the tree: fields, and indices in those that are lists."""


def _iterate_mutations(
    tree: ast.Module, lines: Container[int]
) -> Iterator[tuple[NodePath, str, ast.AST | None]]:
    """Every change at every place inside a function that begins on one of these lines."""
    for node_path, node, inside in _walk(tree, (), None):
        if inside is not None and getattr(node, "lineno", None) in lines:
            for change in _mutate_node(node):
                yield node_path, f"{inside}: {change.description}", change.node


def _walk(
    node: ast.AST, node_path: NodePath, inside: str | None
) -> Iterator[tuple[NodePath, ast.AST, str | None]]:
    yield node_path, node, inside
    if isinstance(node, ast.FunctionDef):
        inside = node.name
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(
            node, ast.Call
        ):
            continue  # types and signatures are not what is computed
        if isinstance(value, ast.AST):
            yield from _walk(value, (*node_path, (field, None)), inside)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _walk(item, (*node_path, (field, index)), inside)


def _apply_mutation(tree: ast.Module, node_path: NodePath, change: ast.AST | None) -> str:
    """The source with what stands at a place replaced."""
    made = copy.deepcopy(tree)
    *before, (field, index) = node_path
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


def _mutate_node(node: ast.AST) -> Iterator[_Mutation]:
    for kind, change in MUTATION_OPERATORS.items():
        if isinstance(node, kind):
            yield from change(node)


def _make_replacement(node: ast.AST, other: ast.AST) -> _Mutation:
    return _Mutation(f"{ast.unparse(node)} -> {ast.unparse(other)}", other)


def _mutate_operation(node: ast.BinOp) -> Iterator[_Mutation]:
    if type(node.op) in REPLACED_OPERATORS:
        yield _make_replacement(
            node, ast.BinOp(node.left, REPLACED_OPERATORS[type(node.op)](), node.right)
        )
    yield _make_replacement(node, node.left)
    if isinstance(node.op, ast.MatMult | ast.Sub | ast.Div):
        yield _make_replacement(node, ast.BinOp(node.right, node.op, node.left))


def _mutate_comparison(node: ast.Compare) -> Iterator[_Mutation]:
    if type(node.ops[0]) in REPLACED_COMPARISONS:
        other = REPLACED_COMPARISONS[type(node.ops[0])]()
        yield _make_replacement(node, ast.Compare(node.left, [other], node.comparators))


def _mutate_constant(node: ast.Constant) -> Iterator[_Mutation]:
    value = node.value
    if isinstance(value, bool):
        yield _make_replacement(node, ast.Constant(not value))
    elif isinstance(value, int):
        yield from (_make_replacement(node, ast.Constant(value + step)) for step in (1, -1))
    elif isinstance(value, float):
        yield from (_make_replacement(node, ast.Constant(value * factor)) for factor in (2, 0.5))
    elif value == "-inf":
        yield from (_make_replacement(node, ast.Constant(other)) for other in ("inf", "0", "-1"))


def _mutate_sign(node: ast.UnaryOp) -> Iterator[_Mutation]:
    yield _make_replacement(node, node.operand)


def _mutate_call(node: ast.Call) -> Iterator[_Mutation]:
    is_method = isinstance(node.func, ast.Attribute) and not _is_module(node.func.value)
    if is_method and isinstance(node.func, ast.Attribute):
        yield _make_replacement(node, node.func.value)
    elif node.args:
        yield _make_replacement(node, node.args[0])
    if len(node.args) >= 2 and not _is_symmetric(node):
        first, second, *rest = node.args
        yield _make_replacement(node, ast.Call(node.func, [second, first, *rest], node.keywords))
    for left_out in node.keywords:
        kept = [keyword for keyword in node.keywords if keyword is not left_out]
        yield _make_replacement(node, ast.Call(node.func, node.args, kept))


def _is_symmetric(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in ("transpose", "swapaxes")


def _is_module(node: ast.expr) -> bool:
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in ("torch", "nn", "F", "math", "self")


def _mutate_name(node: ast.Name) -> Iterator[_Mutation]:
    if isinstance(node.ctx, ast.Load):
        yield from (
            _make_replacement(node, ast.Name(other, node.ctx))
            for other in _find_interchangeable(node.id)
        )


def _mutate_attribute(node: ast.Attribute) -> Iterator[_Mutation]:
    if isinstance(node.ctx, ast.Load):
        others = _find_interchangeable(node.attr)
        yield from (_make_replacement(node, ast.Attribute(node.value, o, node.ctx)) for o in others)


def _find_interchangeable(name: str) -> Iterator[str]:
    """The names that stand beside one: keys and values beside queries."""
    for triple in INTERCHANGEABLE_NAMES:
        for word in triple:
            if re.search(rf"(^|_){word}($|_)", name):
                yield from (name.replace(word, other) for other in triple if other != word)


def _mutate_statement(node: ast.stmt) -> Iterator[_Mutation]:
    simple = isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.If)
    if simple and "super().__init__" not in ast.unparse(node):
        yield _Mutation(f"without {ast.unparse(node).splitlines()[0]}", None)


MUTATION_OPERATORS: Mapping[type[ast.AST], Callable[..., Iterator[_Mutation]]] = {
    ast.BinOp: _mutate_operation,
    ast.Compare: _mutate_comparison,
    ast.Constant: _mutate_constant,
    ast.UnaryOp: _mutate_sign,
    ast.Call: _mutate_call,
    ast.Name: _mutate_name,
    ast.Attribute: _mutate_attribute,
    ast.stmt: _mutate_statement,
}
