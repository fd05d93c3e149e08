"""Find the code patterns that look like steps of attention: a softmax, a fill, a scaling.

A pattern is a kind, the code that matched, and its position. It is not a judgement: once a verdict
says that the mask is wrong, the patterns tell which lines make masks. Patterns are found in the
syntax tree without running anything, and they are plain data for JSON.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.parameters import list_unused_arguments
from headcheck.grader.reading.symbol_table import DefinitionSite, build_symbol_table, list_methods

MAX_PATTERNS = 400
"""at most this many patterns are reported"""
MAX_DETAIL_LENGTH = 80
"""at most this many characters of a pattern's code are reported"""

_NAMES_BY_KIND = {
    "cast": "bfloat16 double float half to type",
    "detach": "detach inference_mode item no_grad numpy set_grad_enabled tolist",
    "dropout": "dropout Dropout",
    "elu": "elu ELU",
    "exp": "exp",
    "fill": "masked_fill where",
    "gelu": "gelu GELU silu SiLU",
    "kernel": "scaled_dot_product_attention",
    "max": "amax max",
    "mean": "mean",
    "norm": "layer_norm LayerNorm normalize",
    "projection": "linear",
    "range": "range",
    "relu": "relu ReLU tanh",
    "repeat": "expand repeat repeat_interleave tile",
    "reshape": "flatten rearrange reshape unflatten view",
    "scale": "isqrt pow rsqrt sqrt",
    "seed": "manual_seed seed set_rng_state",
    "sigmoid": "sigmoid",
    "softmax": "log_softmax LogSoftmax softmax Softmax",
    "squeeze": "squeeze",
    "stack": "cat concat concatenate hstack stack",
    "sum": "sum",
    "triangle": "tril triu",
    "variance": "std std_mean var var_mean",
}
CALL_KINDS = {name: kind for kind, names in _NAMES_BY_KIND.items() for name in names.split()}
"""kinds by the name of the called function; the trailing underscore of in-place functions is
dropped before the look-up"""
PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum", "mm"}
ROOTS = ("0.5", "-0.5", "1/2", "(1/2)", "-1/2")
SETUP_METHODS = {"register_buffer", "register_parameter", "add_module", "eval", "train"}
MODULE_NAMES = {"torch", "F", "nn", "functional", "math", "np", "numpy", "einops"}
TRANSPOSED = re.compile(r"\.(mT|T|t\(\)|transpose|permute|swapaxes|movedim)\b|_[tT]$")


@dataclass(frozen=True, slots=True)
class CodePattern:
    """Code that looks like a step of attention."""

    kind: str
    detail: str
    cell: int | None
    line: int
    result: int | None = None
    """if the function returns several results and the line serves only one: the place of this
    result"""


def find_code_patterns(source: SubmissionSource, name: str) -> tuple[CodePattern, ...]:
    """Return the patterns in a definition and in all definitions that it uses, in source order."""
    sites = build_symbol_table(source).collect_reachable_definitions(name)
    patterns = {pattern for site in sites for pattern in _iter_patterns(site)}
    ordered = sorted(patterns, key=lambda p: (p.cell or 0, p.line, p.kind, p.detail))
    return tuple(ordered[:MAX_PATTERNS])


def _iter_patterns(site: DefinitionSite) -> Iterator[CodePattern]:
    node = site.node
    for function in list_methods(node) if isinstance(node, ast.ClassDef) else [node]:
        results = map_lines_to_results(function)
        if function.name in ("__init__", "forward", node.name):
            for arg in list_unused_arguments(site, function):
                yield CodePattern("unused", arg.arg, site.cell, arg.lineno)
        for line, detail in _iter_running_sums(function):
            yield CodePattern("running", detail[:MAX_DETAIL_LENGTH], site.cell, line)
        for inner in ast.walk(function):
            for kind, detail in _classify_node(inner):
                if kind != "return" or function.name in ("forward", "__call__", node.name):
                    line = getattr(inner, "lineno", function.lineno)
                    detail = detail[:MAX_DETAIL_LENGTH]
                    yield CodePattern(kind, detail, site.cell, line, results.get(line))


def _iter_running_sums(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield what a loop adds to a sum that it adds to as it is, without multiplying it before."""
    loops = (node for node in ast.walk(function) if isinstance(node, ast.For | ast.While))
    for node in (inner for loop in loops for inner in ast.walk(loop)):
        match node:
            case ast.AugAssign(target=ast.Name(), op=ast.Add(), value=added):
                yield node.lineno, ast.unparse(added)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.BinOp(left=left, op=ast.Add(), right=right),
            ):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, ast.Name) and one.id == name:
                        yield node.lineno, ast.unparse(other)


def _classify_node(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kinds of step that a node looks like, each with the detail to report."""
    match node:
        case ast.Call():
            yield from _classify_call(node)
        case ast.BinOp() if (kind := _classify_operation(node)) is not None:
            yield kind, ast.unparse(_select_operand(node))
        case ast.AugAssign() | ast.Assign(targets=[ast.Subscript()]):
            yield from _classify_assignment(node)
        case ast.Attribute(attr="data"):
            yield "detach", ast.unparse(node)
        case ast.Compare():
            yield "compare", ast.unparse(node)
        case ast.Subscript(slice=index) if any(isinstance(n, ast.Slice) for n in ast.walk(index)):
            yield "index", ast.unparse(node)
        case ast.Return(value=ast.expr() as value):
            yield "return", ast.unparse(value)


def _classify_assignment(node: ast.AugAssign | ast.Assign) -> Iterator[tuple[str, str]]:
    """Classify an assignment into a tensor, if it is one."""
    yield "in_place", ast.unparse(node)
    if isinstance(node, ast.AugAssign):
        if isinstance(node.op, ast.Div):
            yield "divide", ast.unparse(node.value)
    elif number := _format_number(node.value):
        yield "fill", number


def _classify_operation(node: ast.BinOp) -> str | None:
    match node.op:
        case ast.MatMult():
            return _classify_product(node.left, node.right)
        case ast.Pow() if ast.unparse(node.right).replace(" ", "") in ROOTS:
            return "scale"
        case ast.Div():
            return "divide"
        case ast.Mult():
            return "scale" if "scale" in ast.unparse(node) else "times"
        case ast.Add():
            return "add"
    return None


def _select_operand(node: ast.BinOp) -> ast.expr:
    """Return the divisor of a division, the base of a power, else the whole operation."""
    if isinstance(node.op, ast.Div):
        return node.right
    return node.left if isinstance(node.op, ast.Pow) else node


def _classify_call(node: ast.Call) -> Iterator[tuple[str, str]]:
    match node.func:
        case ast.Attribute(value=receiver, attr=name):
            own = isinstance(receiver, ast.Name) and receiver.id == "self"
            is_method = ast.unparse(receiver).split(".")[-1] not in MODULE_NAMES
        case ast.Name(id=name):
            own, is_method = False, False
        case _:
            return
    if name.endswith("_") and not name.endswith("__"):
        yield "in_place", ast.unparse(node)
    name = name.rstrip("_")
    if name in PRODUCTS:
        yield _classify_product_call(node, name, is_method), ast.unparse(node)
        return
    kind = CALL_KINDS.get(name)
    if kind is not None:
        yield kind, _describe_call(node, name, kind, is_method)
    elif own and name not in SETUP_METHODS:
        yield "projection", name


def _describe_call(node: ast.Call, name: str, kind: str, is_method: bool) -> str:
    """Return the key that distinguishes calls of one kind, such as the dim of a softmax."""
    keywords = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg}
    # `x.softmax(1)` and `nn.Softmax(1)`, but `torch.softmax(x, 1)`
    options = node.args if is_method or name[0].isupper() else node.args[1:]
    first = ast.unparse(options[0]) if options else ""
    match kind:
        case "softmax" | "stack":
            log = "log " if name.lower().startswith("log") else ""
            return f"{log}dim={keywords.get('dim', first)}"
        case "triangle":
            return f"{name} diagonal={keywords.get('diagonal', first)}"
        case "fill":
            values = [k.value for k in node.keywords if k.arg in ("value", "fill_value")]
            return " ".join(filter(None, map(_format_number, [*node.args, *values])))
        case "kernel":
            return " ".join(f"{name}={value}" for name, value in keywords.items())
    return ast.unparse(node)


def _format_number(node: ast.expr) -> str:
    """Return a number as written, `-inf` or `inf` for every spelling of it, "" for other code."""
    text = ast.unparse(node)
    if "inf" in text or "finfo" in text or ".min" in text:
        return "-inf" if text.startswith("-") or "-inf" in text or ".min" in text else "inf"
    return text if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", text) else ""


def _classify_product(left: ast.expr, right: ast.expr) -> str:
    """Classify a product: scores have a transposed operand, projections a weight, mixes neither."""
    one, other = ast.unparse(left), ast.unparse(right)
    if TRANSPOSED.search(other) or TRANSPOSED.search(one):
        return "projection" if re.search(r"weight|\bW_?|_W\b", other) else "scores"
    return "projection" if re.search(r"weight\b|\bW|_W\b", other) else "mix"


def _classify_product_call(node: ast.Call, name: str, is_method: bool) -> str:
    if name == "einsum":
        return _classify_einsum(node)
    operands = [node.func.value, *node.args] if is_method else list(node.args)  # type: ignore[attr-defined]  # a method has a receiver
    return _classify_product(*operands[-2:]) if len(operands) > 1 else "mix"


def _classify_einsum(node: ast.Call) -> str:
    """Classify an einsum: scores sum over the last index of both operands."""
    pattern = next((a.value for a in node.args if isinstance(a, ast.Constant)), "")
    operands = str(pattern).replace(" ", "").partition("->")[0].split(",")
    if len(operands) != 2 or not all(operands):
        return "mix"
    return "scores" if operands[0][-1] == operands[1][-1] else "mix"


def map_lines_to_results(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[int, int]:
    """Return the place of the result for each line that serves only one; leave out other lines.

    The returned names are followed backwards through the statements. A compound statement counts
    as a whole, and no assignment ends the search. So a line may count for more results than it
    serves, but never for fewer.
    """
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
    changed = _list_names(statement) if isinstance(statement, ast.Expr) else set()
    for node in ast.walk(statement):
        match node:
            case ast.Name(ctx=ast.Store()):
                changed.add(node.id)
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                changed |= _list_names(node.value)
    return changed


def _list_names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _list_lines(node: ast.stmt | ast.expr) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
