"""The fields that a submission's own config class has, with their defaults, from its text alone."""

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeGuard

from headcheck.grader.reading.parameters import Parameter
from headcheck.grader.reading.symbol_table import DefinitionSite, SymbolTable, list_methods

MIN_SHARED = 2
"""the least number of fields by which a class is taken for a config"""
OF_SCORES = re.compile(r"soft_?cap|pre_attn_scal", re.IGNORECASE)
"""in the names of numbers that scale scores or limit them"""
OF_POSITIONS = re.compile(
    r"alibi|slope|theta|base|offset|bucket|distance|index|(^|_)(idx?|ids)$", re.IGNORECASE
)
"""in the names of integers that are no sizes of weights"""
Default = bool | float | str | list[str] | tuple[str, ...] | None


@lru_cache(maxsize=16)
def find_config_class(symbols: SymbolTable, names: frozenset[str]) -> ast.ClassDef | None:
    """Return the class that shares most of these fields; None if it shares one only.

    It may share one if no more were named.
    """
    nodes = [sites[-1].node for sites in symbols.definitions.values()]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    shared = [len(dict(_iter_fields(node)).keys() & names) for node in classes]
    if not shared or max(shared) < max(1, min(MIN_SHARED, len(names))):
        return None
    return classes[shared.index(max(shared))]


def list_options(symbols: SymbolTable, site: DefinitionSite) -> list[Parameter]:
    """Return the fields that a class reads from its config, and that are off or None by default."""
    found = symbols.find_method(site, "__init__")
    annotated = (a.annotation for a in found[1].args.args) if found else ()
    names = [ast.unparse(each).strip("'\"") for each in annotated if each is not None]
    nodes = [symbols.definitions[name][-1].node for name in names if name in symbols.definitions]
    fields = dict(f for n in nodes if isinstance(n, ast.ClassDef) for f in _iter_fields(n))
    read = {node.attr for node in ast.walk(site.node) if isinstance(node, ast.Attribute)}
    off = {n: v for n, node in fields.items() if (v := _read_literal(node)) is None or v is False}
    return [Parameter(n, "keyword", True, v) for n, v in off.items() if n in read]


def list_computed_fields(node: ast.ClassDef) -> list[str]:
    """Return the names of a config's properties, and of what it computes when it is made."""
    methods = list_methods(node)
    properties = [m.name for m in methods if any(map(_is_property, m.decorator_list))]
    made = [m for m in methods if m.name in ("__init__", "__post_init__")]
    taken = {a.arg for m in made for a in (*m.args.args, *m.args.kwonlyargs)}
    stored = [
        target.attr
        for statement in (each for method in made for each in ast.walk(method))
        for target in _list_targets(statement)
        if isinstance(target, ast.Attribute) and target.attr not in taken
    ]
    return [*properties, *stored]


def _is_property(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).rpartition(".")[2] in ("property", "cached_property")


def _list_targets(statement: ast.AST) -> list[ast.expr]:
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return [target]
    return []


@lru_cache(maxsize=16)
def find_config_defaults(symbols: SymbolTable, names: frozenset[str]) -> Mapping[str, Default]:
    """Return the defaults of the class that shares most of these fields, where they are literals.

    Most integers are left out: nearly all of them are sizes, which do not fit other sizes. Numbers
    for scores are left out, because they must be known to whoever judges the class.
    """
    own = find_config_class(symbols, names)
    fields = () if own is None else _iter_fields(own)
    read = {name: _read_literal(value) for name, value in fields}
    known = {n: v for n, v in read.items() if not OF_SCORES.search(n)}
    return {n: v for n, v in known.items() if _is_no_size(v, n)}


def _is_no_size(value: object, name: str) -> TypeGuard[Default]:
    if isinstance(value, int) and not isinstance(value, bool):
        return OF_POSITIONS.search(name) is not None
    return value is None or isinstance(value, bool | float | str) or is_list_of_words(value)


def is_list_of_words(value: object) -> bool:
    """Whether a default has several words, such as the kinds of a model's layers."""
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _iter_fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the variables of a class and the parameters of its constructor, with defaults."""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.value
        elif isinstance(statement, ast.Assign):
            named = (target.id for target in statement.targets if isinstance(target, ast.Name))
            yield from ((name, statement.value) for name in named)
    for taken in (m.args for m in list_methods(node) if m.name == "__init__"):
        last = [*taken.posonlyargs, *taken.args][::-1]
        yield from ((a.arg, d) for a, d in itertools.zip_longest(last, taken.defaults[::-1]))
        yield from ((a.arg, d) for a, d in zip(taken.kwonlyargs, taken.kw_defaults, strict=True))


def _read_literal(value: ast.expr | None) -> object:
    """Return a literal's value; an Ellipsis if there is no value, or if it is no literal."""
    try:
        return ... if value is None else ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ...
