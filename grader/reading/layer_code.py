"""What the code of a class says of a layer: which definitions, parts and masks it uses."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from headcheck.grader.reading.parameters import is_bound
from headcheck.grader.reading.symbol_table import (
    DefinitionSite,
    FunctionNode,
    SymbolTable,
    list_methods,
)

_INDIRECT = (
    "getattr vars __dict__ _modules _parameters children named_children modules named_modules "
    "get_parameter get_submodule"
)
INDIRECT = frozenset(_INDIRECT.split())
"""ways to use an attribute without its name"""


@dataclass(frozen=True, slots=True)
class LayerCode:
    """A class, as its code describes it."""

    name: str
    cell: int | None
    first: int
    last: int
    uses: tuple[str, ...]
    """the names of the definitions that it reads, and of those that these read"""
    made: tuple[tuple[str, int], ...]
    """the attributes that its constructor sets, with their lines"""
    read: frozenset[str] | None
    """the attributes that are read somewhere in the file; None if some may be without their name"""
    repeated: tuple[tuple[str, tuple[int, ...]], ...]
    """the attributes that its `forward` reads several times, with the lines"""
    idle: tuple[tuple[str, int], ...]
    """the parameters that its `forward` requires and never reads, with their lines"""


def list_layer_code(symbols: SymbolTable) -> list[LayerCode]:
    """Describe the classes of a submission; what may be read in other ways counts as read."""
    nodes = [inner for s in symbols.program.statements for inner in ast.walk(s.node)]
    attributes = (n for n in nodes if isinstance(n, ast.Attribute))
    read = frozenset(n.attr for n in attributes if isinstance(n.ctx, ast.Load))
    indirect = INDIRECT & (read | {n.id for n in nodes if isinstance(n, ast.Name)})
    sites = [each[-1] for each in symbols.definitions.values()]
    classes = [site for site in sites if isinstance(site.node, ast.ClassDef)]
    return [_describe(symbols, site, None if indirect else read) for site in classes]


def _describe(symbols: SymbolTable, site: DefinitionSite, read: frozenset[str] | None) -> LayerCode:
    used = symbols.collect_reachable_definitions(site.node.name)
    methods = {method.name: method for method in list_methods(site.node)}
    made = _list_set(methods["__init__"]) if "__init__" in methods else {}
    called = methods.get("forward")
    return LayerCode(
        site.node.name,
        site.cell,
        site.node.lineno,
        site.node.end_lineno or site.node.lineno,
        tuple(sorted({each.node.name for each in used} - {site.node.name})),
        tuple(made.items()),
        read,
        () if called is None else tuple(_iter_repeated(called)),
        () if called is None else tuple(_list_idle(called, is_bound(site, called))),
    )


def _list_set(constructor: FunctionNode) -> dict[str, int]:
    """Return the attributes of its first argument that a constructor sets, with their lines."""
    own = constructor.args.args[0].arg if constructor.args.args else ""
    found: dict[str, int] = {}
    for node in ast.walk(constructor):
        match node:
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name == own:
                found[node.attr] = node.lineno
    return found


def _iter_repeated(function: FunctionNode) -> Iterator[tuple[str, tuple[int, ...]]]:
    nodes = [n for n in ast.walk(function) if isinstance(n, ast.Attribute)]
    for name in dict.fromkeys(node.attr for node in nodes):
        lines = [node.lineno for node in nodes if node.attr == name]
        if len(lines) > 1:
            yield name, tuple(lines)


def _list_idle(function: FunctionNode, bound: int) -> list[tuple[str, int]]:
    taken = [*function.args.posonlyargs, *function.args.args]
    required = taken[bound : len(taken) - len(function.args.defaults)]
    names = [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name)]
    read = {n.id for n in names if isinstance(n.ctx, ast.Load)}
    return [(each.arg, each.lineno) for each in required if each.arg not in read]
