"""What begins another sequence: a method of a class, or an attribute that its users set to None."""

import ast
import re
from collections.abc import Iterator

from headcheck.grader.reading.symbol_table import (
    DefinitionSite,
    FunctionNode,
    SymbolTable,
    list_methods,
)

RESET = re.compile(r"_*(reset|clear|empty|flush|forget)(_?(kv_?)?(cache|state|memory|past))?")
"""names of methods that forget what earlier calls have left"""


def find_reset(site: DefinitionSite) -> FunctionNode | None:
    """Return a class's method without arguments that forgets what earlier calls left."""
    named = (m for m in list_methods(site.node) if RESET.fullmatch(m.name))
    return next((m for m in named if len(m.args.args) == 1), None)


def find_forgotten(symbols: SymbolTable, site: DefinitionSite) -> str:
    """Return the attribute that a class, or one that it uses, fills, and other code sets to None.

    Such code knows when another sequence begins. It returns "" if there is none.
    """
    sites = [site, *symbols.collect_reachable_definitions(site.node.name)]
    classes = {each.node for each in sites if isinstance(each.node, ast.ClassDef)}
    for each in classes:
        methods = {False: list[ast.AST](), True: list[ast.AST]()}
        for method in list_methods(each):
            methods[method.name == "__init__"].append(method)
        empty = {name for m in methods[True] for name, none in _iter_set(m) if none}
        filled = {name for m in methods[False] for name, none in _iter_set(m) if not none}
        others = (s.node for s in symbols.program.statements if s.node is not each)
        reset = {name for node in others for name, none in _iter_set(node) if none}
        if found := empty & filled & reset:
            return min(found)
    return ""


def list_set_later(site: DefinitionSite) -> tuple[str, ...]:
    """Return the attributes that a method sets which is neither `__init__` nor `forward`."""
    others = (m for m in list_methods(site.node) if m.name not in ("__init__", "forward"))
    return tuple(sorted({name for method in others for name, _ in _iter_set(method)}))


def _iter_set(method: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the attributes and buffers that a method sets, and whether it sets them to None."""
    for node in ast.walk(method):
        match node:
            case ast.Assign(targets=targets, value=value):
                every = [each for target in targets for each in ast.walk(target)]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                every = [target]
            case ast.Call(
                func=ast.Attribute(attr="register_buffer"),
                args=[ast.Constant(value=str(name)), value, *_],
            ):
                yield name, _is_none(value)
                continue
            case _:
                continue
        stored = (e for e in every if isinstance(e, ast.Attribute) and isinstance(e.ctx, ast.Store))
        yield from ((each.attr, _is_none(value)) for each in stored)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
