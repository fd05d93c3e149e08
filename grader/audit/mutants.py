"""Generate mutants: each is the solution with one small change, and usually wrong.

The answer banks hold the mistakes that people make; mutants cover what could be wrong at every node
of a solution: an operator, a number, a dimension, two names swapped, a call or a line left out. The
code that students are given is not mutated. Equivalent mutants, which no property could tell from
the solution, are listed in `equivalents.toml` beside it, with the reasons:

    [[equivalent]]
    mutants = ["forward: keys -> queries (2)"]
    reason = "queries are as wide as keys"
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcheck.exercises.exercise import Exercise
from headcheck.exercises.starter import BEGIN, END
from headcheck.exercises.toml_lines import Place, parse, read_text
from headcheck.grader.reading.edits import Edit, edit_text, replace_node, strip_docstrings, walk

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
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
INTERCHANGEABLE_NAMES = (("queries", "keys", "values"), ("query", "key", "value"), ("q", "k", "v"))
"""Words that are substituted for one another in names."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A solution with one change."""

    name: str
    """describes the change in terms of the code, and stays the same until that code changes"""
    source: str


Mutations = Iterator[tuple[str, ast.AST]]
"""Descriptions of changes, each with the node that replaces another."""


def generate_mutants(exercise: Exercise) -> list[Mutant]:
    """Return all mutants of a solution that differ as code, in the order of the source."""
    return mutate_source(exercise.solution, _find_student_lines(exercise.solution))


def mutate_source(source: str, lines: Container[int] | None = None) -> list[Mutant]:
    """Return all mutants of a source that differ as code, with changes on these lines or on any."""
    return make_mutants(source, list_mutations(source, lines))


def make_mutants(source: str, edits: Iterable[tuple[str, Edit]]) -> list[Mutant]:
    """Return what described edits make of a source: each code once, and not the source's own."""
    original = _simplify(source)
    counts: Counter[str] = Counter()
    mutants: dict[str, Mutant] = {}
    for description, edit in edits:
        changed = _simplify(edit_text(source, edit))
        if changed == original or changed in mutants:
            continue
        counts[description] += 1
        number = "" if counts[description] == 1 else f" ({counts[description]})"
        mutants[changed] = Mutant(f"{description}{number}", changed)
    return list(mutants.values())


def _simplify(source: str) -> str:
    """Return a source without comments and docstrings."""
    return ast.unparse(strip_docstrings(ast.parse(source)))


def load_equivalents(exercise: Exercise) -> dict[str, str]:
    """Return the names of the equivalent mutants of a solution, with the reasons.

    Raises ValueError if `equivalents.toml` cannot be read or names a mutant that does not exist.
    """
    path = exercise.folder / "equivalents.toml"
    if not path.exists():
        return {}
    known = {mutant.name for mutant in generate_mutants(exercise)}
    reasons: dict[str, str] = {}
    for names, reason in _read_entries(path):
        for name in names:
            if name not in known:
                raise ValueError(f"{path}: no mutant is called {name!r}. Was the solution changed?")
            if name in reasons:
                raise ValueError(f"{path}: {name!r} is listed twice. Keep one of its reasons.")
            reasons[name] = reason
    return reasons


def _read_entries(path: Path) -> Iterator[tuple[list[str], str]]:
    """Read every entry: its mutants and their reason."""
    match parse(Place(path, read_text(path, "is gone", ValueError), error=ValueError)):
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
    """Return the numbers of the lines that the student writes."""
    numbers: set[int] = set()
    inside = False
    for number, line in enumerate(source.splitlines(), start=1):
        inside = line.strip() == BEGIN or (inside and line.strip() != END)
        if inside:
            numbers.add(number)
    return numbers


# ---------------------------------------------------------------------------------- edits


def list_mutations(source: str, lines: Container[int] | None) -> Iterator[tuple[str, Edit]]:
    """Yield every change inside a function on these lines, or on any, with its description."""
    for node, function in walk(strip_docstrings(ast.parse(source))):
        if function and (lines is None or node.lineno in lines):
            for description, replacement in _mutate_node(node):
                yield f"{function}: {description}", replace_node(None, node, replacement)


# ----------------------------------------------------------------------- mutation operators


def _mutate_node(node: ast.AST) -> Mutations:
    for kind, mutate in MUTATION_OPERATORS.items():
        if isinstance(node, kind):
            yield from mutate(node)


def _replace(node: ast.AST, other: ast.AST) -> tuple[str, ast.AST]:
    return f"{ast.unparse(node)} -> {ast.unparse(other)}", other


def _mutate_operation(node: ast.BinOp) -> Mutations:
    if type(node.op) in REPLACED_OPERATORS:
        other = REPLACED_OPERATORS[type(node.op)]()
        yield _replace(node, ast.BinOp(node.left, other, node.right))
    yield _replace(node, node.left)
    if isinstance(node.op, ast.MatMult | ast.Sub | ast.Div):
        yield _replace(node, ast.BinOp(node.right, node.op, node.left))


def _mutate_comparison(node: ast.Compare) -> Mutations:
    if type(node.ops[0]) in REPLACED_COMPARISONS:
        other = REPLACED_COMPARISONS[type(node.ops[0])]()
        yield _replace(node, ast.Compare(node.left, [other], node.comparators))


def _mutate_condition(node: ast.BoolOp) -> Mutations:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield _replace(node, ast.BoolOp(other, node.values))


def _mutate_constant(node: ast.Constant) -> Mutations:
    value = node.value
    if isinstance(value, bool):
        yield _replace(node, ast.Constant(not value))
    elif isinstance(value, int):
        yield from (_replace(node, ast.Constant(value + step)) for step in (1, -1))
    elif isinstance(value, float):
        yield from (_replace(node, ast.Constant(value * factor)) for factor in (2, 0.5))
    elif value == "-inf":
        yield from (_replace(node, ast.Constant(other)) for other in ("inf", "0", "-1"))


def _mutate_call(node: ast.Call) -> Mutations:
    if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
        yield _replace(node, node.func.value)
    elif node.args:
        yield _replace(node, node.args[0])
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if len(node.args) >= 2 and method not in ("transpose", "swapaxes"):  # these are symmetric
        first, second, *rest = node.args
        yield _replace(node, ast.Call(node.func, [second, first, *rest], node.keywords))
    for left_out in node.keywords:
        kept = [keyword for keyword in node.keywords if keyword is not left_out]
        yield _replace(node, ast.Call(node.func, node.args, kept))


def _is_module(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "nn", "F", "math", "self")


def _mutate_name(node: ast.Name) -> Mutations:
    if isinstance(node.ctx, ast.Load):
        others = _find_interchangeable(node.id)
        yield from (_replace(node, ast.Name(other, node.ctx)) for other in others)


def _mutate_attribute(node: ast.Attribute) -> Mutations:
    if isinstance(node.ctx, ast.Load):
        others = _find_interchangeable(node.attr)
        yield from (_replace(node, ast.Attribute(node.value, o, node.ctx)) for o in others)


def _find_interchangeable(name: str) -> Iterator[str]:
    """Yield the name with another word of its triple: for queries, with keys and with values."""
    for triple in INTERCHANGEABLE_NAMES:
        for word in triple:
            if re.search(rf"(^|_){word}($|_)", name):
                yield from (name.replace(word, other) for other in triple if other != word)


def _mutate_statement(node: ast.stmt) -> Mutations:
    simple = isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.If)
    if simple and "super().__init__" not in ast.unparse(node):
        yield f"without {ast.unparse(node).splitlines()[0]}", ast.Pass()


MUTATION_OPERATORS: Mapping[type[ast.AST], Callable[..., Mutations]] = {
    ast.BinOp: _mutate_operation,
    ast.Compare: _mutate_comparison,
    ast.BoolOp: _mutate_condition,
    ast.Constant: _mutate_constant,
    ast.UnaryOp: lambda node: iter([_replace(node, node.operand)]),
    ast.Call: _mutate_call,
    ast.Name: _mutate_name,
    ast.Attribute: _mutate_attribute,
    ast.stmt: _mutate_statement,
}
