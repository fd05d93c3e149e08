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
SETUP = re.compile(
    r"_*((re)?set_?up|reset|init(iali[sz]e)?|build|make|create|alloc(ate)?|prepare|enable|start|"
    r"begin|new)_?((kv|key_?value|attn|attention|decod(e|er|ing)|inference|static)_?)?caches?"
)
"""names of methods that make an empty cache"""


def find_reset(site: DefinitionSite) -> FunctionNode | None:
    """Return the method that sets up an empty cache, or else forgets what earlier calls left."""
    return _find_setup(site) or _find_forgetting(site)


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


def _find_forgetting(site: DefinitionSite) -> FunctionNode | None:
    """Return a class's method without arguments that forgets earlier calls."""
    named = (m for m in list_methods(site.node) if RESET.fullmatch(m.name))
    return next((m for m in named if len(m.args.args) == 1), None)


def _find_setup(site: DefinitionSite) -> FunctionNode | None:
    """Return a class's method that makes a cache of a given size, if nothing of the class calls it.

    Something that it sets is None before, or is not there.
    """
    methods = list_methods(site.node)
    read = {
        node.attr
        for method in methods
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    constructors = (method for method in methods if method.name == "__init__")
    held = {name for method in constructors for name, none in _iter_set(method) if not none}
    sized = (m for m in methods if SETUP.fullmatch(m.name) and len(m.args.args) > 1)
    for method in sized:
        made = {name for name, _ in _iter_set(method)}
        if method.name not in read and made - held:
            return method
    return None


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
