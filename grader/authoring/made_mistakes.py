"""Wrong answers besides mutants: mistakes from the catalogue, made by one edit of a solution.

Like a mutant, each may or may not change the results.
"""

import ast
from collections.abc import Iterator, Sequence

from headcheck.grader.audit.mutants import Mutant, make_mutants
from headcheck.grader.reading.edits import replace_node, walk

FILLS = (0.0, -1.0)
"""fill values that are not negative enough to hide a score"""
Changes = Iterator[tuple[str, ast.expr, ast.expr]]
"""descriptions of changes, with the code that is replaced and the code in its place"""


def make_mistakes(source: str) -> list[Mutant]:
    """Return the mistakes that can be made in a solution, in the order of its source."""
    tree = ast.parse(source)
    kinds = (_spoil_results, _spoil_softmaxes, _spoil_fills)
    edits = (
        (f"{ast.unparse(node)} -> {description}", replace_node(None, node, by))
        for make in kinds
        for description, node, by in make(tree)
    )
    return make_mutants(source, edits)


def _spoil_results(tree: ast.Module) -> Changes:
    """Yield results that are only zeros, or the input; attention weights stay."""
    for forward in ast.walk(tree):
        if isinstance(forward, ast.FunctionDef) and forward.name == "forward":
            given = [ast.Name(each.arg) for each in forward.args.args[1:2]]
            returned = (n.value for n in ast.walk(forward) if isinstance(n, ast.Return) and n.value)
            for value in returned:
                first = value.elts[0] if isinstance(value, ast.Tuple) else value
                zeros = ast.BinOp(first, ast.Mult(), ast.Constant(0))
                yield "zeros", value, _put_first(value, zeros)
                yield from (("the input", value, _put_first(value, each)) for each in given)


def _put_first(value: ast.expr, first: ast.expr) -> ast.expr:
    return ast.Tuple([first, *value.elts[1:]]) if isinstance(value, ast.Tuple) else first


def _iter_calls(tree: ast.Module, names: Sequence[str]) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Yield the calls of these methods, and of modules' functions of these names."""
    for node, _ in walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) as called) if name in names:
                yield node, called


def _spoil_softmaxes(tree: ast.Module) -> Changes:
    """Yield sigmoids in place of softmaxes."""
    for node, called in _iter_calls(tree, ("softmax",)):
        if isinstance(called.value, ast.Name) and called.value.id in ("torch", "F"):
            sigmoid = ast.Attribute(ast.Name("torch"), "sigmoid")
            yield "sigmoid", node, ast.Call(sigmoid, node.args[:1], [])


def _spoil_fills(tree: ast.Module) -> Changes:
    """Yield masks that hide a key by a score that is not negative enough."""
    for node, called in _iter_calls(tree, ("masked_fill", "masked_fill_")):
        if len(node.args) == 2:
            for fill in FILLS:
                filled = ast.Call(called, [node.args[0], ast.Constant(fill)], node.keywords)
                yield f"filled with {fill:g}", node, filled
