"""List the single edits of a submission that might undo a slip, the likeliest first.

Theory
------
A slip is one wrong token in code that is otherwise right: `keys.T` for `keys.mT`, a misspelt name,
a `return` that is missing. Nobody knows which token it is, but Python says where it stopped. So
every edit of a fixed set is listed, by how far its line is from that line and how often people make
this slip. The grader process tries them in this order (`grader.grading.repair`); whether an edit is
right is decided there, by what the edited code computes.

Distances: 0 on the line that stopped, 1 on lines that set what this line reads, 2 in the same
function, 4 elsewhere in the definitions that are used.
"""

import ast
import builtins
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import nn

from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.edits import Edit, insert, prepend, replace_node
from headcheck.grader.reading.slicing import Position
from headcheck.grader.reading.symbol_table import DefinitionSite, build_symbol_table

MAX_EDITS = 400
"""the most edits that are listed"""
IMPORTS = {
    "F": "import torch.nn.functional as F", "Tensor": "from torch import Tensor",
    "math": "import math", "nn": "from torch import nn", "np": "import numpy as np",
    "sqrt": "from math import sqrt", "torch": "import torch",
}  # fmt: skip
"""the usual imports of names that are often left out"""
METHODS = frozenset(dir(torch.Tensor))
FUNCTIONS = frozenset({*dir(torch), *dir(nn), *dir(nn.functional), *dir(nn.Module)})
KEYWORDS = (
    "attn_mask", "bias", "batch_first", "device", "diagonal", "dim", "dropout_p", "dtype",
    "is_causal", "keepdim", "persistent",
)  # fmt: skip
OPERATORS = (ast.MatMult, ast.Mult, ast.Div, ast.FloorDiv, ast.Add, ast.Sub, ast.Pow)
ALONG_AN_AXIS = ("cat", "log_softmax", "softmax", "Softmax", "stack")
METHODS_OF_MODULES = ("__init__", "forward")
Change = tuple[int, ast.AST]
"""how rare a slip is, from 0 to 4, and the code that undoes it"""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that code may mean: those that it can read, and the attributes of `self`."""

    names: frozenset[str]
    attributes: frozenset[str]
    own: frozenset[str] = frozenset()
    """the names of the function around the code"""


def list_slips(source: SubmissionSource, name: str, stopped: Position | None) -> tuple[Edit, ...]:
    """Return the edits of a definition, and of those that it uses, the likeliest first."""
    table = build_symbol_table(source)
    sites = table.collect_reachable_definitions(name)
    bound = frozenset(table.program.binders)
    ranked = [(0, edit) for edit in _list_imports(sites, bound)]
    for site in sites:
        names = bound | {each.node.name for each in sites}
        scope = Scope(names, _list_attributes(site.node))
        near = _measure_distances(site, stopped)
        for rank, edit in _list_edits(site, scope):
            ranked.append((rank + near(edit.line), edit))
    ordered = sorted(ranked, key=lambda pair: pair[0])
    return tuple(dict.fromkeys(edit for _, edit in ordered))[:MAX_EDITS]


def _list_imports(sites: list[DefinitionSite], bound: frozenset[str]) -> Iterator[Edit]:
    """Yield the imports of names that are read and bound nowhere."""
    nodes = [node for site in sites for node in ast.walk(site.node)]
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    given = {n.arg for n in nodes if isinstance(n, ast.arg)}
    read = {n.id for n in nodes if isinstance(n, ast.Name)} - stored - given - bound
    yield from (prepend(IMPORTS[name]) for name in sorted(read & IMPORTS.keys()))


def _list_attributes(node: ast.AST) -> frozenset[str]:
    """Return the attributes that a class sets, registers or defines."""
    walked = list(ast.walk(node))
    stored = {n.attr for n in walked if isinstance(n, ast.Attribute) and _is_stored(n)}
    methods = {n.name for n in walked if isinstance(n, ast.FunctionDef)}
    registered = {
        str(n.args[0].value)
        for n in walked
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr.startswith("register_")
        and n.args
        and isinstance(n.args[0], ast.Constant)
    }
    return frozenset(stored | registered | (methods - {"__init__"}))


def _is_stored(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _measure_distances(site: DefinitionSite, stopped: Position | None) -> Callable[[int], int]:
    """Return the distance of each line of a definition from the line that stopped."""
    if stopped is None or stopped[0] != site.cell:
        return lambda line: 4 if stopped else 2
    at = stopped[1]
    functions = [n for n in ast.walk(site.node) if isinstance(n, ast.FunctionDef)]
    around = [f for f in functions if f.lineno <= at <= (f.end_lineno or at)]
    own = {line for f in around for line in range(f.lineno, (f.end_lineno or at) + 1)}
    statements = [s for s in ast.walk(site.node) if isinstance(s, ast.Assign | ast.AugAssign)]
    read = {_name(n) for n in ast.walk(site.node) if getattr(n, "lineno", 0) == at} - {""}
    feeding = {
        line
        for s in statements
        for line in range(s.lineno, (s.end_lineno or s.lineno) + 1)
        if read & {_name(n) for n in ast.walk(s) if isinstance(n, ast.Name | ast.Attribute)
                   and _is_stored(n)}
    }  # fmt: skip

    def measure(line: int) -> int:
        return 0 if line == at else 1 if line in feeding else 2 if line in own else 4

    return measure


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


# --------------------------------------------------------------------------------- edits


def _list_edits(site: DefinitionSite, scope: Scope) -> Iterator[tuple[int, Edit]]:
    yield from _edit_nodes(site.node, site.cell, scope, frozenset())


def _edit_nodes(
    node: ast.AST, cell: int | None, scope: Scope, called: frozenset[ast.AST]
) -> Iterator[tuple[int, Edit]]:
    """Yield the edits of a node and of all that it consists of."""
    if isinstance(node, ast.ClassDef):
        yield from _edit_class(node, cell)
        yield from _keep_arguments(node, cell, scope)
    if isinstance(node, ast.FunctionDef):
        yield from _edit_function(node, cell)
        local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _is_stored(n)}
        given = {n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)}
        own = scope.own | local | given
        scope = Scope(scope.names | own, scope.attributes, own - {"self"})
    if isinstance(node, ast.stmt):
        yield from ((rank, replace_node(cell, node, by)) for rank, by in _change_statement(node))
    if isinstance(node, ast.expr):
        changes = _change(node, scope, called)
        yield from ((rank, replace_node(cell, node, by)) for rank, by in changes)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.arguments | ast.expr_context):
            inner = frozenset([node.func]) if isinstance(node, ast.Call) else frozenset[ast.AST]()
            yield from _edit_nodes(child, cell, scope, inner)


def _edit_class(node: ast.ClassDef, cell: int | None) -> Iterator[tuple[int, Edit]]:
    """Yield other names of methods: `forword` and `__int__` are not called."""
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef)]
    for wanted in set(METHODS_OF_MODULES) - {method.name for method in methods}:
        names = [method.name for method in methods]
        for near in difflib.get_close_matches(wanted, names, n=1, cutoff=0.6):
            method = next(method for method in methods if method.name == near)
            start = method.col_offset + len("def ")
            place = (method.lineno, start, method.lineno, start + len(near.encode()))
            yield 0, Edit(cell, *place, wanted, near, wanted)


def _keep_arguments(
    node: ast.ClassDef, cell: int | None, scope: Scope
) -> Iterator[tuple[int, Edit]]:
    """Yield assignments to the attributes that are read and never set: `self.n_head = n_head`."""
    starts = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    reads = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and _is_own(n)}
    for start in starts:
        first, given = start.body[0], {argument.arg for argument in start.args.args}
        end = first.end_lineno or first.lineno, first.end_col_offset or 0
        for name in sorted(reads & given - scope.attributes):
            kept = f"self.{name} = {name}"
            yield 0, insert(cell, *end, f"; {kept}", kept)


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _edit_function(node: ast.FunctionDef, cell: int | None) -> Iterator[tuple[int, Edit]]:
    """Yield a `return` for the last statement, `self`, and the call of the parent's `__init__`."""
    last, first = node.body[-1], node.body[0]
    end = last.end_lineno or last.lineno, last.end_col_offset or 0
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        result = f"return {last.targets[0].id}"
        yield 0, insert(cell, *end, f"; {result}", result)
    if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Constant):
        shown = f"return {ast.unparse(last)}"
        yield 0, insert(cell, last.lineno, last.col_offset, "return ", shown)
    arguments = node.args.args
    if arguments and arguments[0].arg != "self" and node.name in METHODS_OF_MODULES:
        given = arguments[0]
        yield 0, insert(cell, given.lineno, given.col_offset, "self, ", "self")
    if node.name == "__init__" and "__init__" not in ast.unparse(ast.Module(node.body, [])):
        call = "super().__init__()"
        yield 0, insert(cell, first.lineno, first.col_offset, f"{call}; ", call)


def _change(node: ast.expr, scope: Scope, called: frozenset[ast.AST]) -> Iterator[Change]:
    match node:
        case ast.Name(ctx=ast.Load()):
            yield from _change_name(node, scope, called)
        case ast.Attribute(ctx=ast.Load()):
            yield from _change_attribute(node, scope, called)
        case ast.Call():
            yield from _change_call(node)
        case ast.BinOp():
            yield from _change_operation(node)
        case ast.Constant():
            yield from _change_constant(node, scope)
        case ast.Subscript(ctx=ast.Load()):
            yield 3, node.value
        case ast.Tuple(elts=elts, ctx=ast.Load()) if 1 < len(elts) <= 6 and not _cuts(elts):
            yield from ((2, ast.Tuple(each)) for each in _exchange(elts))
        case ast.UnaryOp():
            yield 2, node.operand


def _cuts(items: list[ast.expr]) -> bool:
    """Whether these are the slices of an index, which are no tuple of their own."""
    return any(isinstance(each, ast.Slice) for each in items)


def _change_statement(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.Raise() if "NotImplemented" in ast.unparse(node):
            yield 0, ast.Pass()
        case ast.Assign(targets=[ast.Tuple(elts=targets)]):
            rest = ast.Tuple([*targets, ast.Name("_")])
            yield 1, ast.Assign([rest], node.value, lineno=node.lineno)


def _change_name(node: ast.Name, scope: Scope, called: frozenset[ast.AST]) -> Iterator[Change]:
    known = node.id in scope.names or hasattr(builtins, node.id)
    if node.id in scope.attributes:
        yield (2 if known else 0), ast.Attribute(ast.Name("self"), node.id)
    if node.id == "super" and node not in called:
        yield 0, ast.Call(node, [], [])
    near = difflib.get_close_matches(node.id, sorted(scope.names - {node.id}), n=4, cutoff=0.5)
    yield from ((1 if known else 0, ast.Name(other)) for other in near)
    others = sorted(scope.names - {node.id, *near}) if not known else ()
    yield from ((2, ast.Name(other)) for other in others)
    if known and node not in called:
        yield 3, _transpose(node)


def _change_attribute(
    node: ast.Attribute, scope: Scope, called: frozenset[ast.AST]
) -> Iterator[Change]:
    of_self = _is_own(node)
    known = scope.attributes if of_self else METHODS | FUNCTIONS
    wrong = node.attr not in known
    near = difflib.get_close_matches(node.attr, sorted(known - {node.attr}), n=3, cutoff=0.6)
    rank = 0 if wrong else 2
    yield from (
        (rank, ast.Attribute(node.value, other)) for other in (near if wrong or of_self else ())
    )
    if of_self and node.attr in scope.names:
        yield (0 if wrong else 3), ast.Name(node.attr)
    if of_self and not wrong and node not in called:
        yield from ((2, ast.Call(node, [ast.Name(name)], [])) for name in sorted(scope.own))
    if node.attr in ("T", "H"):
        yield 0, _transpose(node.value)
    elif node.attr in METHODS and node not in called and not of_self:
        yield 1, ast.Call(node, [], [])
    if node.attr == "view":
        yield 0, ast.Attribute(node.value, "reshape")


def _transpose(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(node, "transpose"), [ast.Constant(-2), ast.Constant(-1)], [])


def _change_call(node: ast.Call) -> Iterator[Change]:
    function, arguments = node.func, node.args
    called = function.attr if isinstance(function, ast.Attribute) else ""
    if called in ("shape", "dtype", "device"):
        yield 0, ast.Subscript(function, arguments[0]) if arguments else function
    if not arguments and not node.keywords:
        yield 2, function
    if isinstance(function, ast.Attribute) and called in ("transpose", "permute"):
        yield 1, function.value
    for i, each in enumerate(arguments if called in ("matmul", "bmm") else ()):
        turned = [*arguments[:i], _transpose(each), *arguments[i + 1 :]]
        yield 1, ast.Call(function, turned, node.keywords)
    if 1 < len(arguments) <= 6:
        changed = [*_exchange(arguments), *(arguments[:i] for i in range(1, len(arguments)))]
        yield from ((2, ast.Call(function, each, node.keywords)) for each in changed)
    if len(arguments) == 1 or (arguments and node.keywords):
        yield 3, arguments[0]
    yield from _change_keywords(node)


def _change_keywords(node: ast.Call) -> Iterator[Change]:
    function, name = node.func, ast.unparse(node.func).rpartition(".")[2]
    if name in ALONG_AN_AXIS and not any(keyword.arg == "dim" for keyword in node.keywords):
        along = ast.keyword("dim", ast.Constant(-1))
        yield 0, ast.Call(function, node.args, [*node.keywords, along])
    if name == "masked_fill" and node.args:
        mask = ast.Call(ast.Attribute(node.args[0], "bool"), [], [])
        yield 1, ast.Call(function, [mask, *node.args[1:]], node.keywords)
    for i, keyword in enumerate(node.keywords):
        rest = [*node.keywords[:i], *node.keywords[i + 1 :]]
        yield 2, ast.Call(function, node.args, rest)
        others = [k for k in KEYWORDS if k != keyword.arg]
        for near in difflib.get_close_matches(keyword.arg or "", others, n=1, cutoff=0.6):
            renamed = ast.keyword(near, keyword.value)
            yield 0, ast.Call(function, node.args, [*rest[:i], renamed, *rest[i:]])


def _exchange(items: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """Yield the items with two of them exchanged."""
    for one, other in combinations(range(len(items)), 2):
        exchanged = list(items)
        exchanged[one], exchanged[other] = items[other], items[one]
        yield exchanged


def _change_operation(node: ast.BinOp) -> Iterator[Change]:
    if isinstance(node.op, ast.MatMult):
        yield 0, ast.BinOp(node.left, node.op, _transpose(node.right))
        yield 1, ast.BinOp(_transpose(node.left), node.op, node.right)
        yield 1, ast.BinOp(node.right, node.op, node.left)
    others = [kind for kind in OPERATORS if not isinstance(node.op, kind)]
    likely = (ast.MatMult, ast.Mult, ast.FloorDiv)
    for kind in others:
        yield (1 if kind in likely else 2), ast.BinOp(node.left, kind(), node.right)
    yield 3, node.left
    yield 3, node.right


def _change_constant(node: ast.Constant, scope: Scope) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield 2, ast.Constant(not value)
    elif isinstance(value, int):
        others = dict.fromkeys((-value, value + 1, value - 1, -2, -1, 0, 1, 2, 3))
        yield from ((2, ast.Constant(other)) for other in others if other != value)
    elif isinstance(value, float):
        yield 3, ast.Constant(-value)
    elif isinstance(value, str) and value not in scope.attributes:
        near = difflib.get_close_matches(value, sorted(scope.attributes), n=2, cutoff=0.6)
        yield from ((1, ast.Constant(other)) for other in near)
