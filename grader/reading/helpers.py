"""Functions of a submission that make what calls of its classes are given: masks, rotary tables.

Names say which functions these may be. How the submission uses what such a function makes says
whether it goes into calls unchanged.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from headcheck.grader.reading.effects import get_root_name
from headcheck.grader.reading.parameters import Parameter, is_bound, iter_parameters
from headcheck.grader.reading.symbol_table import (
    DefinitionSite,
    FunctionNode,
    SymbolTable,
    list_methods,
)

TURNS = re.compile(r"^(?!.*att(entio)?n).*(rope|rotary|freqs|cos_?sin)", re.IGNORECASE)
"""names of functions that make rotary tables, and of classes whose objects make them"""
KEPT = {"to", "cuda", "unsqueeze", "expand", "repeat", "clone", "contiguous"}
"""methods of tensors that leave what is hidden"""
LIBRARIES = {"torch", "nn", "F", "np", "print", "len"}
"""what changes or only shows what it is given"""
OTHERS = re.compile(r"MultiheadAttention|Transformer(Encoder|Decoder)?(Layer)?")
"""classes of torch.nn, which take masks of another polarity than many classes"""


@dataclass(frozen=True, slots=True)
class Helper:
    """A function or method that makes masks or tables, or a class whose objects make tables."""

    name: str
    """that of a method with its class, as in `Decoder.make_mask`"""
    cell: int | None
    line: int
    parameters: tuple[Parameter, ...]
    constructor: tuple[Parameter, ...] | None
    """the parameters of the constructor of a class; None for functions and methods"""
    passed: bool
    """whether calls are given what it makes, and nothing in the submission changes it"""
    calls: tuple[str, ...] = ()
    """the names of what it calls"""


def list_helpers(symbols: SymbolTable) -> list[Helper]:
    """Return the functions whose names say that they make masks or tables."""
    return [each for sites in symbols.definitions.values() for each in _iter(symbols, sites[-1])]


def list_numbers_of_padding(symbols: SymbolTable) -> list[int]:
    """Return the numbers that variables and defaults with such names have."""
    values = {name: v.value for name, v in symbols.assigned.items() if "pad" in name.lower()}
    found = (v.value for v in values.values() if isinstance(v, ast.Constant))
    return [number for number in found if type(number) is int]


def _iter(symbols: SymbolTable, site: DefinitionSite) -> Iterator[Helper]:
    if not isinstance(site.node, ast.ClassDef):
        if "mask" in site.node.name.lower() or TURNS.search(site.node.name):
            yield _describe(symbols, site, site.node, site.node.name)
        return
    for method in list_methods(site.node):
        if "mask" in method.name.lower():
            yield _describe(symbols, site, method, f"{site.node.name}.{method.name}")
    called = symbols.find_method(site, "forward") or symbols.find_method(site, "__call__")
    built = symbols.find_method(site, "__init__")
    if called and TURNS.search(site.node.name):
        taken = tuple(iter_parameters(built[1].args))[1:] if built else ()
        yield _describe(symbols, site, called[1], site.node.name, taken)


def _describe(
    symbols: SymbolTable,
    site: DefinitionSite,
    function: FunctionNode,
    name: str,
    constructor: tuple[Parameter, ...] | None = None,
) -> Helper:
    taken = tuple(iter_parameters(function.args))[is_bound(site, function) :]
    passed = constructor is None and _is_passed(symbols, function)
    calls = {_get_called(n) for n in ast.walk(function) if isinstance(n, ast.Call)}
    return Helper(name, site.cell, function.lineno, taken, constructor, passed, tuple(calls))


# -------------------------------------------------------------------------------------- uses


def _is_passed(symbols: SymbolTable, made_by: FunctionNode) -> bool:
    """Whether calls are given what a function makes, and nothing changes it before that."""
    nodes = [statement.node for statement in symbols.program.statements]
    inner = [n for node in nodes for n in ast.walk(node)]
    if any(isinstance(n, ast.Attribute) and OTHERS.fullmatch(n.attr) for n in inner):
        return False
    functions = [n for n in inner if isinstance(n, FunctionNode) and n is not made_by]
    plain = [n for n in nodes if not isinstance(n, (FunctionNode, ast.ClassDef))]
    uses = [_find_uses(list(ast.walk(scope)), made_by.name) for scope in (*functions, *plain)]
    return any(passed for passed, _ in uses) and not any(changed for _, changed in uses)


def _find_uses(nodes: list[ast.AST], maker: str) -> tuple[bool, bool]:
    """Return whether a scope passes on what a function makes, and whether it changes it."""
    names = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _is_made(node.value, maker, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    changing, passing = list[ast.AST](), list[ast.AST]()
    for node in nodes:
        if isinstance(node, (ast.UnaryOp, ast.BinOp, ast.Compare, ast.BoolOp)):
            changing += ast.iter_child_nodes(node)
        if isinstance(node, ast.Call):
            given = [*node.args, *(each.value for each in node.keywords)]
            (changing if get_root_name(node.func) in LIBRARIES else passing).extend(given)
            if isinstance(node.func, ast.Attribute) and node.func.attr not in KEPT:
                changing.append(node.func.value)
    passed, changed = (
        any(_is_made(each, maker, names) for each in found) for found in (passing, changing)
    )
    return passed, changed


def _is_made(node: ast.AST, maker: str, names: set[str]) -> bool:
    """Whether an expression is what a function makes, perhaps with other axes."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Subscript):
        return _is_made(node.value, maker, names)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in KEPT:
        return _is_made(node.func.value, maker, names)
    return _get_called(node) == maker


def _get_called(call: ast.Call) -> str:
    """Return the last name of what is called; "" if it has none."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))
