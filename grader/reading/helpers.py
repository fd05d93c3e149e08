"""Functions of a submission that make what calls of its classes are given: masks, rotary tables.

Names say which functions these may be.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from headcheck.grader.reading.parameters import Parameter, is_bound, iter_parameters
from headcheck.grader.reading.symbol_table import (
    DefinitionSite,
    FunctionNode,
    SymbolTable,
    list_methods,
)

TURNS = re.compile(r"^(?!.*att(entio)?n).*(rope|rotary|freqs|cos_?sin)", re.IGNORECASE)
"""names of functions that make rotary tables, and of classes whose objects make them"""
CHANGES = re.compile(
    r"~|\b1(\.0)? - |\bnot |[!=]= |\* -|logical_|\b(eq|ne)\(|where\(|print\(|show\(|plot"
)
"""in code that may invert a mask, or that only shows it"""
OF_TORCH = re.compile(r"nn\.(MultiheadAttention|Transformer)")
"""classes that take masks of another polarity than many classes of submissions"""


@dataclass(frozen=True, slots=True)
class Helper:
    """A function or method that makes masks or tables, or a class whose objects make tables."""

    name: str
    """that of a method with its class, as in `Decoder.make_mask`"""
    cell: int | None
    line: int
    parameters: tuple[Parameter, ...]
    lines: tuple[int, ...] = ()
    """those of what it does"""
    constructor: tuple[Parameter, ...] | None = None
    """the parameters of the constructor of a class; None for functions and methods"""
    passed: bool = False
    """whether the submission seems to give calls what it makes, unchanged"""
    calls: tuple[str, ...] = ()
    """the names of what it calls"""


def list_helpers(symbols: SymbolTable) -> list[Helper]:
    """Return the functions whose names say that they make masks or tables."""
    found = [each for sites in symbols.definitions.values() for each in _iter(symbols, sites[-1])]
    uses = _list_uses(symbols) if found else {}
    return [replace(each, passed=_is_passed(uses, function)) for each, function in found]


def list_numbers_of_padding(symbols: SymbolTable) -> list[int]:
    """Return the numbers of variables that are named after padding."""
    values = {name: v.value for name, v in symbols.assigned.items() if "pad" in name.lower()}
    found = (v.value for v in values.values() if isinstance(v, ast.Constant))
    return [number for number in found if type(number) is int]


def _iter(symbols: SymbolTable, site: DefinitionSite) -> Iterator[tuple[Helper, FunctionNode]]:
    """Yield what a definition has, each with the function that is called."""
    name = site.node.name
    if not isinstance(site.node, ast.ClassDef):
        if "mask" in name.lower() or TURNS.search(name):
            yield _describe(site, site.node, name), site.node
        return
    for method in list_methods(site.node):
        if "mask" in method.name.lower():
            yield _describe(site, method, f"{name}.{method.name}"), method
    called = symbols.find_method(site, "forward") or symbols.find_method(site, "__call__")
    built = symbols.find_method(site, "__init__")
    if called and TURNS.search(name):
        taken = tuple(iter_parameters(built[1].args))[1:] if built else ()
        yield replace(_describe(site, called[1], name), constructor=taken), called[1]


def _describe(site: DefinitionSite, function: FunctionNode, name: str) -> Helper:
    taken = tuple(iter_parameters(function.args))[is_bound(site, function) :]
    calls = {_get_called(n) for n in ast.walk(function) if isinstance(n, ast.Call)}
    body = function.body[ast.get_docstring(function) is not None :] or function.body
    lines = tuple(range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1))
    return Helper(name, site.cell, function.lineno, taken, lines, calls=tuple(sorted(calls)))


def _list_uses(symbols: SymbolTable) -> Mapping[ast.AST, str]:
    """Return the code of all functions, and of the statements outside of definitions."""
    nodes = [statement.node for statement in symbols.program.statements]
    functions = [n for node in nodes for n in ast.walk(node) if isinstance(n, FunctionNode)]
    plain = [n for n in nodes if not isinstance(n, (FunctionNode, ast.ClassDef))]
    return {node: ast.unparse(node) for node in (*functions, *plain)}


def _is_passed(uses: Mapping[ast.AST, str], made_by: FunctionNode) -> bool:
    """Whether what calls a function seems to pass on what it makes as it is."""
    called = re.compile(rf"\b{re.escape(made_by.name)}\(")
    texts = [text for node, text in uses.items() if node is not made_by and called.search(text)]
    others = any(map(OF_TORCH.search, uses.values()))
    return bool(texts) and not (others or any(map(CHANGES.search, texts)))


def _get_called(call: ast.Call) -> str:
    """Return the last name of what is called; "" if it has none."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))
