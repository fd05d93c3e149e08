"""The parameters of functions and methods, from their text alone."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headcheck.grader.reading.symbol_table import DefinitionSite, FunctionNode


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


def _is_switch(arg: ast.arg) -> bool:
    return isinstance(arg.annotation, ast.Name) and arg.annotation.id == "bool"


def _read_literal(node: ast.expr | None) -> int | float | bool | str | None:
    """Return a literal number, truth value or text; None for anything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float | bool | str) else None


def is_bound(site: DefinitionSite, function: FunctionNode) -> bool:
    """Whether a function is a method that gets its instance as the first positional argument."""
    static = any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    )
    positional = [*function.args.posonlyargs, *function.args.args]
    return isinstance(site.node, ast.ClassDef) and not static and bool(positional)
