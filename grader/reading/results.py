"""Tell which lines of a function serve only one of several results that it returns.

The names in `return a, b` are followed backwards through the statements of the body. A compound
statement counts as a whole, and no assignment ends the search. So the analysis may claim that a
line serves more results than it does, but never fewer.
"""

import ast
from collections import Counter


def map_lines_to_results(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[int, int]:
    """Return the place of the result for each line that serves only one; leave out other lines."""
    *before, last = function.body
    if not (isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple)):
        return {}
    slices = [_slice_backwards(before, result) for result in last.value.elts]
    uses = Counter(line for lines in slices for line in lines)
    return {line: n for n, lines in enumerate(slices) for line in lines if uses[line] == 1}


def _slice_backwards(statements: list[ast.stmt], result: ast.expr) -> set[int]:
    """Return the lines of all statements that a result may depend on."""
    needed, lines = _list_names(result), _list_lines(result)
    for statement in reversed(statements):
        if needed & _list_changed(statement):
            needed |= _list_names(statement)
            lines |= _list_lines(statement)
    return lines


def _list_changed(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds, or whose values it may change in place."""
    bound = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    assigned = {
        name
        for node in ast.walk(statement)
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store)
        for name in _list_names(node.value)
    }
    called = _list_names(statement) if isinstance(statement, ast.Expr) else set()
    return bound | assigned | called


def _list_names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _list_lines(node: ast.stmt | ast.expr) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
