"""The parameters of functions and methods, and those that are never read, from their text alone."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headcheck.grader.reading.symbol_table import DefinitionSite, FunctionNode, SymbolTable


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a signature, other than the `self` of a method."""

    name: str
    kind: Literal["positional", "keyword", "*", "**"]
    has_default: bool
    default: int | float | bool | str | None = None
    """the default, if the source has it as a literal"""
    is_switch: bool = False
    """whether its annotation says that it is on or off"""


def iter_parameters(args: ast.arguments) -> Iterator[Parameter]:
    """Yield the parameters of a signature, in order."""
    positional = [*args.posonlyargs, *args.args]
    required = len(positional) - len(args.defaults)
    for i, arg in enumerate(positional):
        default = args.defaults[i - required] if i >= required else None
        switch = _is_switch(arg)
        yield Parameter(arg.arg, "positional", i >= required, _read_literal(default), switch)
    if args.vararg:
        yield Parameter(args.vararg.arg, "*", False)
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        own = default is not None, _read_literal(default), _is_switch(arg)
        yield Parameter(arg.arg, "keyword", *own)
    if args.kwarg:
        yield Parameter(args.kwarg.arg, "**", False)


def read_parameters(
    symbols: SymbolTable, site: DefinitionSite, function: FunctionNode
) -> tuple[Parameter, ...]:
    """Return the parameters of a method; what it hands on as `*args` is what the next one takes."""
    own = tuple(iter_parameters(function.args))[is_bound(site, function) :]
    open_ones = [p for p in own if p.kind in ("*", "**")]
    found = _find_next(symbols, site, function, [p.name for p in open_ones])
    if found is None:
        return own
    call, inner = found
    given = len([a for a in call.args if not isinstance(a, ast.Starred)])
    named = {keyword.arg for keyword in call.keywords}
    taken = [p for p in inner[given:] if p.name not in named]
    if all(p.kind == "**" for p in open_ones):  # these cannot be passed by position
        taken = [replace(p, kind="keyword") if p.kind == "positional" else p for p in taken]
    return (*(p for p in own if p not in open_ones), *taken)


def _find_next(
    symbols: SymbolTable, site: DefinitionSite, function: FunctionNode, names: Sequence[str]
) -> tuple[ast.Call, tuple[Parameter, ...]] | None:
    """Return the call to which a method hands these on, and what is taken there."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        starred = [a.value for a in node.args if isinstance(a, ast.Starred)]
        handed = [*starred, *(keyword.value for keyword in node.keywords)]
        values = {each.id for each in handed if isinstance(each, ast.Name)}
        owner = site if ast.unparse(node.func.value) == "self" else None
        if ast.unparse(node.func.value) == "super()":
            owner = next(symbols.iter_bases(site), None)
        found = symbols.find_method(owner, node.func.attr) if owner else None
        if names and values >= {*names} and found and found[1] is not function:
            return node, read_parameters(symbols, *found)
    return None


def _is_switch(arg: ast.arg) -> bool:
    return isinstance(arg.annotation, ast.Name) and arg.annotation.id == "bool"


def _read_literal(node: ast.expr | None) -> int | float | bool | str | None:
    """Return a literal number, truth value or text; None for anything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float | bool | str) else None


def is_bound(site: DefinitionSite, function: FunctionNode) -> bool:
    """Whether a function is a method that gets its instance as the first positional argument."""
    positional = [*function.args.posonlyargs, *function.args.args]
    is_method = isinstance(site.node, ast.ClassDef) and not is_static(function)
    return is_method and bool(positional)


def is_static(function: FunctionNode) -> bool:
    """Whether a function is a static method."""
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)


def list_unused_arguments(site: DefinitionSite, function: FunctionNode) -> list[ast.arg]:
    """Return the named arguments that a function never reads; none of one without a body yet."""
    read: set[str] = set()
    for node in (inner for statement in function.body for inner in ast.walk(statement)):
        match node:
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()):
                read.add(name)
            case ast.AugAssign(target=ast.Name(id=name)):
                read.add(name)
    if _is_stub(function) or read & {"eval", "exec", "locals", "vars"}:
        return []
    positional = [*function.args.posonlyargs, *function.args.args]
    given = [*positional[is_bound(site, function) :], *function.args.kwonlyargs]
    return [arg for arg in given if arg.arg not in read and not arg.arg.startswith("_")]


def _is_stub(function: FunctionNode) -> bool:
    """Whether a function has no real body yet: only docstrings, `pass`, `...` or a `raise`."""
    return all(
        isinstance(statement, (ast.Pass, ast.Raise))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in function.body
    )
