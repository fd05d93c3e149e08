"""Find the arguments that a function never reads."""

import ast

from headcheck.grader.reading.parameters import is_bound
from headcheck.grader.reading.symbol_table import DefinitionSite, FunctionNode


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
