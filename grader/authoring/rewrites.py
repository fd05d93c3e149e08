"""Rewrite a solution in other styles that compute the same results: right answers.

Each rewrite transforms the syntax tree and keeps the results, as far as the code shows. The outputs
of the rewritten code are checked afterwards (`grader.authoring.judging`).
"""

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping

from headcheck.exercises import Exercise
from headcheck.exercises.answers import Answer, AnswerKind

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def list_variants(exercise: Exercise) -> list[Answer]:
    """Return the rewrites whose code differs from the solution's, without duplicates."""
    source = exercise.solution
    seen = {ast.unparse(ast.parse(source))}
    variants = []
    for name, (description, transform) in STYLES.items():
        tree = transform(ast.parse(source), exercise.contract.name)
        text = ast.unparse(ast.fix_missing_locations(tree))
        if text not in seen:
            seen.add(text)
            code = f'"""{description}"""\n\n{text}\n'
            variants.append(Answer(exercise.slug, AnswerKind.RIGHT, name, description, code))
    return variants


# ------------------------------------------------------------------------------------- names


def _rename_locals(tree: ast.Module, class_name: str) -> ast.Module:
    for function in _iter_functions(tree):
        assigned = _list_locals(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in assigned:
                node.id = f"my_{node.id}"
    return tree


def _iter_functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield the functions without inner functions; in them each name belongs to one scope."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            inner = (each for each in ast.walk(node) if each is not node)
            others = (ast.Global, ast.Nonlocal, ast.Lambda, *FUNCTIONS)
            if not any(isinstance(each, others) for each in inner):
                yield node


def _list_locals(function: ast.FunctionDef) -> set[str]:
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    called = {each.id for each in calls if isinstance(each, ast.Name)}
    return stored - parameters - called - set(dir(builtins))


def _name_the_result(tree: ast.Module, class_name: str) -> ast.Module:
    class Name(ast.NodeTransformer):
        def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.stmt]:
            if node.value is None or isinstance(node.value, ast.Name | ast.Constant):
                return node
            target = ast.Name("what_comes_out", ast.Store())
            result = ast.Name("what_comes_out", ast.Load())
            return [ast.Assign([target], node.value), ast.Return(result)]

    changed: ast.Module = Name().visit(tree)
    return changed


# -------------------------------------------------------------------------------- expressions


class _Expressions(ast.NodeTransformer):
    """Replaces expressions from the inside out."""

    def __init__(self, replace: Callable[[ast.expr], ast.expr]) -> None:
        self.replace = replace

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        return self.replace(node) if isinstance(node, ast.expr) else node


def _rewrite_expressions(
    replace: Callable[[ast.expr], ast.expr], *imports: str
) -> Callable[[ast.Module, str], ast.Module]:
    def transform(tree: ast.Module, class_name: str) -> ast.Module:
        before = ast.unparse(tree)
        changed: ast.Module = _Expressions(replace).visit(tree)
        ast.fix_missing_locations(changed)
        if ast.unparse(changed) != before:
            body = changed.body
            future = [n for n in body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
            at = body.index(future[-1]) + 1 if future else 0
            body[at:at] = [statement for line in imports for statement in ast.parse(line).body]
        return changed

    return transform


def _call(text: str, *arguments: ast.expr, **keywords: ast.expr) -> ast.Call:
    function = ast.parse(text, mode="eval").body
    return ast.Call(function, list(arguments), [ast.keyword(k, v) for k, v in keywords.items()])


def _match_method(node: ast.expr, name: str) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """Return the tensor and the two arguments of a method's call; None for any other code."""
    match node:
        case ast.Call(ast.Attribute(tensor, attr), [one, other], []) if attr == name:
            return None if _is_module(tensor) else (tensor, one, other)
    return None


def _is_module(node: ast.expr) -> bool:
    return ast.unparse(node) in ("torch", "F", "nn.functional", "torch.nn.functional", "math", "np")


def _write_matmul(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _call("torch_.matmul", node.left, node.right)
    return node


def _write_einsum(node: ast.expr) -> ast.expr:
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    if isinstance(node, ast.BinOp) and product:
        pattern = ast.Constant("...ij,...jk->...ik")
        return _call("torch_.einsum", pattern, node.left, node.right)
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    products = ("torch.matmul", "torch.bmm")
    if isinstance(node, ast.Call) and called in products and len(node.args) == 2:
        return _call("torch_.einsum", ast.Constant("...ij,...jk->...ik"), *node.args)
    return node


def _write_operator(node: ast.expr) -> ast.expr:
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and called == "torch.matmul" and len(node.args) == 2:
        return ast.BinOp(node.args[0], ast.MatMult(), node.args[1])
    return node


def _find_softmax(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return the scores and the axis of a softmax, if the call is written in a simple way."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr != "softmax":
        return None
    given = list(node.args) if _is_module(node.func.value) else [node.func.value, *node.args]
    given += [keyword.value for keyword in node.keywords if keyword.arg == "dim"]
    others = [keyword for keyword in node.keywords if keyword.arg != "dim"]
    return (given[0], given[1]) if len(given) == 2 and not others else None


def _rewrite_softmax(
    write: Callable[[ast.expr, ast.expr], ast.expr], imports: str
) -> Callable[[ast.Module, str], ast.Module]:
    """Return a transform that writes a softmax in another way, from its scores and axis."""

    def replace(node: ast.expr) -> ast.expr:
        found = _find_softmax(node)
        return node if found is None else write(*found)

    return _rewrite_expressions(replace, imports)


def _exponentiate(scores: ast.expr, dim: ast.expr) -> ast.expr:
    return _call("softmax_by_hand", scores, dim)


def _log_softmax(scores: ast.expr, dim: ast.expr) -> ast.expr:
    return _call("torch_.exp", _call("torch_.log_softmax", scores, dim=dim))


def _layer_softmax(scores: ast.expr, dim: ast.expr) -> ast.expr:
    return ast.Call(_call("torch_.nn.Softmax", dim=dim), [scores], [])


def _write_permutation(node: ast.expr) -> ast.expr:
    found = _match_method(node, "transpose")
    return node if found is None else _call("torch_.swapaxes", *found)


def _write_reshape(node: ast.expr) -> ast.expr:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return node
    if node.func.attr != "view" or _is_module(node.func.value):
        return node
    reshape = ast.Attribute(node.func.value, "reshape", ast.Load())
    return ast.Call(reshape, node.args, node.keywords)


def _write_where(node: ast.expr) -> ast.expr:
    found = _match_method(node, "masked_fill")
    if found is None:
        return node
    tensor, mask, fill = found
    return _call("torch_.where", mask, _call("torch_.full_like", tensor, fill), tensor)


def _write_product(node: ast.expr) -> ast.expr:
    """Write a quotient as a product; this is exact enough if the dividend is a tensor."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        inverse = ast.BinOp(ast.Constant(1.0), ast.Div(), node.right)
        return ast.BinOp(node.left, ast.Mult(), inverse)
    return node


def _write_root(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _call("pow", node.left, node.right)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "math.sqrt":
        return ast.BinOp(node.args[0], ast.Pow(), ast.Constant(0.5))
    return node


# --------------------------------------------------------------------------------- statements


def _swap_statements(tree: ast.Module, class_name: str) -> ast.Module:
    """Exchange neighbouring assignments if neither reads what the other writes."""
    for function in _iter_functions(tree):
        body, at = function.body, 0
        while at + 1 < len(body):
            if _are_independent(body[at], body[at + 1]):
                body[at], body[at + 1] = body[at + 1], body[at]
                at += 1
            at += 1
    return tree


def _are_independent(one: ast.stmt, other: ast.stmt) -> bool:
    if not (isinstance(one, ast.Assign) and isinstance(other, ast.Assign)):
        return False
    written, read = zip(*map(_list_names, (one, other)), strict=True)
    return not (written[0] & (written[1] | read[1]) or written[1] & read[0])


def _list_names(statement: ast.Assign) -> tuple[set[str], set[str]]:
    written, read = set[str](), set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute):
            stored = isinstance(node.ctx, ast.Store)
            (written if stored else read).add(ast.unparse(node))
    return written, read


def _add_hints(tree: ast.Module, class_name: str) -> ast.Module:
    """Annotate the parameters and results of functions, and add docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is None:
            node.returns = node.returns or ast.Constant("object")
            for each in node.args.args[1:]:
                each.annotation = each.annotation or ast.Constant("object")
            node.body.insert(0, ast.Expr(ast.Constant("Names describe each step.")))
    return tree


def _delegate(tree: ast.Module, class_name: str) -> ast.Module:
    """Move the body of `forward` into another method, and let `forward` call that method."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for method in list(node.body):
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    _split_forward(node, method)
    return tree


def _split_forward(node: ast.ClassDef, method: ast.FunctionDef) -> None:
    plain = not (method.args.vararg or method.args.kwarg or method.args.kwonlyargs)
    uses_super = any(isinstance(n, ast.Name) and n.id == "super" for n in ast.walk(method))
    if not plain or uses_super:
        return
    names = [each.arg for each in (*method.args.posonlyargs, *method.args.args)]
    module = ast.parse(
        f"def _attend({', '.join(names)}): ...\n"
        f"def f(): return {names[0]}._attend({', '.join(names[1:])})"
    )
    inner, outer = module.body
    assert isinstance(inner, ast.FunctionDef) and isinstance(outer, ast.FunctionDef)
    inner.body, method.body = method.body, outer.body
    node.body.append(inner)


def _inherit(tree: ast.Module, class_name: str) -> ast.Module:
    """Let the class inherit everything from a class of another name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            node.name = f"{class_name}Base"
        if isinstance(node, ast.Name) and node.id == class_name:
            node.id = f"{class_name}Base"
    own = f"class {class_name}({class_name}Base):\n    pass"
    tree.body.extend(ast.parse(own).body)
    return tree


TORCH = "import torch as torch_"
BY_HAND = f"""{TORCH}
def softmax_by_hand(scores, dim):
    powers = torch_.exp(scores - scores.amax(dim=dim, keepdim=True))
    return powers / powers.sum(dim=dim, keepdim=True)
"""

Transform = Callable[[ast.Module, str], ast.Module]
STYLES: Mapping[str, tuple[str, Transform]] = {
    "other_names": ("The local variables have other names.", _rename_locals),
    "named_result": ("The result gets a name before it is returned.", _name_the_result),
    "matmul": ("Products are calls of torch.matmul.", _rewrite_expressions(_write_matmul, TORCH)),
    "einsum": ("Products are written with einsum.", _rewrite_expressions(_write_einsum, TORCH)),
    "operator": ("Products are written with @.", _rewrite_expressions(_write_operator)),
    "softmax_by_hand": (
        "The softmax is computed by exponentials, less the largest score.",
        _rewrite_softmax(_exponentiate, BY_HAND),
    ),
    "log_softmax": (
        "The weights are the exponentials of a log_softmax.",
        _rewrite_softmax(_log_softmax, TORCH),
    ),
    "softmax_layer": ("The softmax is a layer.", _rewrite_softmax(_layer_softmax, TORCH)),
    "swapaxes": ("Axes are swapped.", _rewrite_expressions(_write_permutation, TORCH)),
    "reshape": ("Tensors are reshaped, not viewed.", _rewrite_expressions(_write_reshape)),
    "where": ("The mask is put in with torch.where.", _rewrite_expressions(_write_where, TORCH)),
    "products": ("Quotients are products.", _rewrite_expressions(_write_product)),
    "powers": ("Roots are written in another way.", _rewrite_expressions(_write_root)),
    "other_order": ("Assignments are in another order.", _swap_statements),
    "annotated": ("Everything has a type hint and a docstring.", _add_hints),
    "delegated": ("`forward` calls a method that does the work.", _delegate),
    "inherited": ("The class inherits all of its code.", _inherit),
}
"""the styles by name, each with a sentence that describes it and the transform that produces it"""
