"""Objects that a class is given, and the definitions of the same file that may make them.

An attention may be given a module that does part of its work, as in
`AttentionLayer(FullAttention())`, or in each call an object that keeps keys and values. What the
class does with such an object says which classes and functions fit: they take its calls, and have
the attributes that it reads.
"""

import ast
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headcheck.grader.reading.symbol_table import (
    DefinitionSite,
    FunctionNode,
    SymbolTable,
    list_methods,
)

MAX_MAKERS = 3
"""how many definitions are listed for one object, in the order of the file"""


@dataclass(frozen=True, slots=True)
class Companion:
    """A parameter that takes an object, and what may make this."""

    method: Literal["__init__", "forward"]
    parameter: str
    makers: tuple[str, ...]
    attribute: str = ""
    """where a constructor stores it"""


@dataclass(frozen=True, slots=True)
class _Uses:
    """What a class does with an object."""

    calls: Sequence[ast.Call]
    attributes: frozenset[str]
    methods: frozenset[str]
    """those of the attributes that are called"""
    written: bool
    """whether it sets some attribute"""


def list_companions(symbols: SymbolTable, site: DefinitionSite) -> list[Companion]:
    """Return the objects that a class is given for which the submission has a maker."""
    if not isinstance(site.node, ast.ClassDef):
        return []
    given = (*_iter_parts(symbols, site), *_iter_passed(symbols, site))
    found = ((each, tuple(_iter_makers(symbols, site, uses))) for each, uses in given)
    return [replace(each, makers=makers[:MAX_MAKERS]) for each, makers in found if makers]


def list_maker_names(symbols: SymbolTable, names: Sequence[str]) -> list[str]:
    """Return the names of all makers of what these definitions are given."""
    sites = filter(None, map(symbols.find_definition, names))
    companions = (companion for site in sites for companion in list_companions(symbols, site))
    return list(dict.fromkeys(maker for companion in companions for maker in companion.makers))


def _iter_parts(symbols: SymbolTable, site: DefinitionSite) -> Iterator[tuple[Companion, _Uses]]:
    """Yield the required parameters of the constructor that are stored and then called."""
    found = symbols.find_method(site, "__init__")
    required = set(_list_required(found[1].args, 1)) if found else set[str]()
    stored = {
        value.id: target.attr
        for node in (ast.walk(found[1]) if found else ())
        for target, value in _iter_assigned(node)
        if isinstance(value, ast.Name) and isinstance(target, ast.Attribute)
    }
    for parameter, attribute in stored.items():
        uses = _find_uses(site, functools.partial(_is_own, attribute))
        if parameter in required and uses.calls:
            yield Companion("__init__", parameter, (), attribute), uses


def _iter_assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment with its value, also of `a, b = c, d`."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value


def _iter_passed(symbols: SymbolTable, site: DefinitionSite) -> Iterator[tuple[Companion, _Uses]]:
    """Yield the parameters of `forward` whose methods are called, or which are written into."""
    found = symbols.find_method(site, "forward")
    for argument in (*found[1].args.args, *found[1].args.kwonlyargs)[1:] if found else ():
        uses = _find_uses(site, functools.partial(_is_name, argument.arg))
        if uses.methods or uses.written:
            yield Companion("forward", argument.arg, ()), uses


def _is_own(attribute: str, node: ast.expr) -> bool:
    """Whether an expression is this attribute of a name, which is `self`."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return own and node.attr == attribute  # type: ignore[attr-defined]


def _is_name(name: str, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _find_uses(site: DefinitionSite, is_object: Callable[[ast.expr], bool]) -> _Uses:
    nodes = [node for method in list_methods(site.node) for node in ast.walk(method)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    of_object = [n for n in nodes if isinstance(n, ast.Attribute) and is_object(n.value)]
    functions = {call.func for call in calls}
    called = frozenset(node.attr for node in of_object if node in functions)
    own = [call for call in calls if is_object(call.func)]
    written = any(isinstance(node.ctx, ast.Store) for node in of_object)
    return _Uses(own, frozenset(n.attr for n in of_object), called, written)


def _iter_makers(symbols: SymbolTable, site: DefinitionSite, uses: _Uses) -> Iterator[str]:
    """Yield the names of the definitions that give an object with these uses."""
    for name, sites in symbols.definitions.items():
        other = sites[-1]
        if other.node is not site.node and uses.attributes <= _list_members(symbols, other):
            called = _find_called(symbols, other)
            fits = called is not None and all(_takes(*called, call) for call in uses.calls)
            if fits or not uses.calls:
                yield name


def _find_called(symbols: SymbolTable, site: DefinitionSite) -> tuple[ast.arguments, int] | None:
    """Return what an object of a class, or a function, is called with, and what to leave out."""
    if not isinstance(site.node, ast.ClassDef):
        return site.node.args, 0
    found = symbols.find_method(site, "forward") or symbols.find_method(site, "__call__")
    return (found[1].args, 1) if found else None


def _takes(arguments: ast.arguments, bound: int, call: ast.Call) -> bool:
    """Whether a function with these arguments takes a call, its first ones being `bound`."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][bound:]
    known = {*names, *(each.arg for each in arguments.kwonlyargs)}
    passed = {*names[: len(call.args)], *(each.arg for each in call.keywords if each.arg)}
    every = set(_list_required(arguments, bound)) <= passed
    return every and passed <= known and len(call.args) <= len(names)


def _list_required(arguments: ast.arguments, bound: int) -> list[str]:
    """Return the parameters without defaults, after the first ones, which are `bound`."""
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[bound : len(positional) - len(arguments.defaults)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [each.arg for each in required] + [each.arg for each, d in pairs if d is None]


def _list_members(symbols: SymbolTable, site: DefinitionSite) -> set[str]:
    """Return the names of a class's methods and attributes, and of those of its bases."""
    methods: list[FunctionNode] = list_methods(site.node)
    nodes = (node for method in methods for node in ast.walk(method))
    stored = set[str]()
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(), attr=name, ctx=ast.Store()):
                stored.add(name)
    body = site.node.body if isinstance(site.node, ast.ClassDef) else []
    targets = [t for s in body if isinstance(s, ast.Assign) for t in s.targets]
    targets += [s.target for s in body if isinstance(s, ast.AnnAssign)]
    fields = {target.id for target in targets if isinstance(target, ast.Name)}
    inherited = (_list_members(symbols, base) for base in symbols.iter_bases(site))
    return {method.name for method in methods} | stored | fields.union(*inherited)
