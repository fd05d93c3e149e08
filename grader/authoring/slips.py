"""Wrong answers besides mutants: mistakes from the catalogue, made by editing a solution.

Like a mutant, each slip is the solution with one change, which may or may not change the results.
"""

import ast
from collections.abc import Callable, Iterator

from headcheck.exercises.mutants import Mutant

SOFTMAX = ("softmax", "Softmax", "log_softmax")
EXCHANGES = ("transpose", "permute", "swapaxes", "movedim")
FILLS = (0.0, -1.0)
"""fill values that are not negative enough to hide a score"""


def generate_slips(source: str) -> list[Mutant]:
    """Return the slips that can be made in a solution, in the order of its source."""
    slips: dict[str, Mutant] = {}
    for make in (_list_results, _list_softmaxes, _list_fills, _list_transposes):
        for number in range(sum(1 for _ in make(ast.parse(source)))):
            tree = ast.parse(source)
            name, change = list(make(tree))[number]
            change()
            text = ast.unparse(ast.fix_missing_locations(tree))
            slips.setdefault(text, Mutant(name, text))
    return list(slips.values())


Slip = tuple[str, Callable[[], None]]
"""a description of a change, and a function that makes it in the tree"""


def _list_results(tree: ast.Module) -> Iterator[Slip]:
    """Yield the slips that return only zeros, or the input."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "forward" and len(node.args.args) > 1:
            returns = [n for n in ast.walk(node) if isinstance(n, ast.Return) and n.value]
            for each in returns:
                where = f"forward: {ast.unparse(each).splitlines()[0]}"
                yield f"{where} -> zeros", _setter(each, "value", _make_zeros(each.value))
                given = ast.Name(node.args.args[1].arg, ast.Load())
                yield f"{where} -> the input", _setter(each, "value", _put_first(each.value, given))


def _make_zeros(value: ast.expr | None) -> ast.expr:
    assert value is not None
    first = value.elts[0] if isinstance(value, ast.Tuple) else value
    return _put_first(value, ast.BinOp(first, ast.Mult(), ast.Constant(0)))


def _put_first(value: ast.expr | None, first: ast.expr) -> ast.expr:
    """Return a result with another output; the attention weights, if any, are unchanged."""
    return ast.Tuple([first, *value.elts[1:]]) if isinstance(value, ast.Tuple) else first


def _list_softmaxes(tree: ast.Module) -> Iterator[Slip]:
    """Yield the slips that normalise over the queries, or not at all."""
    for node, called in _iter_calls(tree):
        if called.attr in SOFTMAX:
            yield from _change_softmax(node, called)


def _iter_calls(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Yield the calls of methods and of modules' functions, with their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, node.func


def _change_softmax(node: ast.Call, called: ast.Attribute) -> Iterator[Slip]:
    axis = next((k for k in node.keywords if k.arg == "dim"), None)
    if axis is not None:
        yield f"{ast.unparse(node)} -> over the queries", _setter(axis, "value", ast.Constant(-2))
    elif node.args:

        def change() -> None:
            node.args[-1] = ast.Constant(-2)

        yield f"{ast.unparse(node)} -> over the queries", change
    own = isinstance(called.value, ast.Name) and called.value.id in ("torch", "F")
    if called.attr == "softmax" and own:

        def replace() -> None:
            called.value = ast.Name("torch", ast.Load())
            called.attr = "sigmoid"
            node.args, node.keywords = node.args[:1], []

        yield f"{ast.unparse(node)} -> sigmoid", replace


def _list_fills(tree: ast.Module) -> Iterator[Slip]:
    """Yield the slips that hide a key by a score that is not negative enough."""
    for node, called in _iter_calls(tree):
        if called.attr in ("masked_fill", "masked_fill_") and len(node.args) == 2:
            for fill in FILLS:
                yield f"{ast.unparse(node)} -> filled with {fill:g}", _filler(node, fill)


def _list_transposes(tree: ast.Module) -> Iterator[Slip]:
    """Yield the slips that reshape without exchanging axes first."""
    for node, called in _iter_calls(tree):
        if called.attr in ("reshape", "view", "flatten"):
            inner = _skip_exchange(called.value)
            if inner is not None:
                yield f"{ast.unparse(node)} -> not exchanged first", _shortener(called, inner)


def _skip_exchange(value: ast.expr) -> ast.expr | None:
    """Return a tensor before its axes were exchanged; None if they were not."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in EXCHANGES:
            return value.func.value
        if value.func.attr != "contiguous":
            return None
        value = value.func.value
    return None


def _shortener(called: ast.Attribute, inner: ast.expr) -> Callable[[], None]:
    def change() -> None:
        called.value = inner
        called.attr = "reshape" if called.attr == "view" else called.attr

    return change


def _filler(node: ast.Call, fill: float) -> Callable[[], None]:
    def change() -> None:
        node.args[1] = ast.Constant(fill)

    return change


def _setter(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)
