"""Crashes because an object that is not a tensor is used like one: a layer, a list, or None."""

import ast
import re
from typing import Any

from torch import nn

from headcheck.grader.sandbox.sentences import Finding, conclude, count
from headcheck.grader.sandbox.worker.crashes.scene import Patterns, Scene
from headcheck.grader.sandbox.worker.crashes.values import UNKNOWN, is_tensor

FUNCTION_TYPES = ("builtin_function_or_method", "function", "method", "method_descriptor")
SEQUENCE_TYPES = frozenset({"list", "tuple", "ModuleList"})
NUMBER_TYPES = frozenset({"int", "float", "bool"})
TENSOR_TYPES = frozenset({"Tensor", "Parameter"})
LAYER_TYPES = frozenset({"Linear", "Dropout", "Softmax", "LayerNorm", "Identity", "Sequential"})


def explain_none(scene: Scene, node: ast.AST | None) -> Finding:
    """Explain which value is None and, if certain, that the function behind it returns nothing."""
    source = _find_source(scene, node)
    if source is None:
        return conclude("none_used", scene.write(node) if node is not None else "")
    written = scene.write(source.func)
    return conclude("none_used", f"{scene.write(node)}, which {written} gave: it has no `return`")


def _find_source(scene: Scene, node: ast.AST | None) -> ast.Call | None:
    """Return the call of the submission's own function that made a value, if that is certain."""
    call = node
    if isinstance(node, ast.Name) and (function := scene.function) is not None:
        stored = [
            each
            for each in ast.walk(function)
            if isinstance(each, ast.Assign) and each.lineno <= getattr(scene.node, "lineno", 0)
            if any(isinstance(t, ast.Name) and t.id == node.id for t in each.targets)
        ]
        call = stored[0].value if len(stored) == 1 else None
    if not isinstance(call, ast.Call):
        return None
    made_by = call.func
    name = made_by.attr if isinstance(made_by, ast.Attribute) else scene.tree.get_text(made_by)
    own = [n for n in scene.tree.nodes if isinstance(n, ast.FunctionDef) and n.name == name]
    gives = (n for each in own for n in ast.walk(each) if isinstance(n, ast.Return | ast.Yield))
    return call if own and not any(n.value is not None for n in gives) else None


def explain_thing(scene: Scene, node: ast.AST | None, kind: str, problem: str) -> Finding | None:
    """Explain that an object of this type is used like a tensor, and what it cannot do."""
    written = "" if node is None else scene.write(node)
    value = scene.find(node)
    if kind == "NoneType":
        return explain_none(scene, node)
    if (isinstance(value, nn.Module) and type(value).__name__ == kind) or kind in LAYER_TYPES:
        if kind in ("ModuleList", "ModuleDict"):
            return conclude("sequence_not_tensor", f"{written} is a {kind}" if written else "")
        return conclude("layer_not_called", f"{written} is the layer ({kind})" if written else kind)
    if kind in FUNCTION_TYPES:
        return conclude("not_called", written)
    if kind in SEQUENCE_TYPES:
        length = f" of {len(value)}" if type(value) in (list, tuple) else ""
        return conclude("sequence_not_tensor", f"{written} is a {kind}{length}" if written else "")
    if kind.startswith("torch.return_types."):
        function = kind.rpartition(".")[2]
        return conclude("pair_not_tensor", f"{written}: `{function}` along an axis gives both")
    if kind == "torch.Size":
        return conclude("not_a_number", f"{written} is a whole shape")
    if kind in NUMBER_TYPES:
        said = f"{written} is {_add_article(kind)}, and {problem}" if written else ""
        return conclude("number_not_tensor", said)
    return None


def _add_article(kind: str) -> str:
    return f"{'an' if kind == 'int' else 'a'} {kind}"


def explain_operands(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an operator is applied to objects that do not support it."""
    match scene.node:
        case ast.BinOp(left=left, right=right) | ast.AugAssign(target=left, value=right):
            pass
        case _:
            return None
    sides = ((left, match["left"]), (right, match["right"]))
    is_product = match["op"].startswith("@")
    for node, kind in sides:
        if kind not in TENSOR_TYPES and (is_product or kind not in NUMBER_TYPES):
            return explain_thing(scene, node, kind, f"`{match['op']}` needs tensors")
    return None


def explain_callee(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an object is called that cannot be called."""
    if not isinstance(scene.node, ast.Call) or not scene.direct:
        return None
    kind, node = match["type"], scene.node.func
    written = scene.write(node)
    if kind == "NoneType":
        return explain_none(scene, node)
    if kind in TENSOR_TYPES:
        tensor = scene.find_tensor(node)
        shape = () if tensor is None else (", of shape ", tuple(tensor.shape))
        return conclude("tensor_called", written, *shape)
    if kind == "list":
        return conclude("list_called", written) if _holds_layers(scene.find(node)) else None
    if kind in (*NUMBER_TYPES, "tuple", "torch.Size", "str", "dict", "module"):
        return conclude("not_callable", f"{written} is {_add_article(kind)}")
    return None


def _holds_layers(value: Any) -> bool:
    return type(value) is list and bool(value) and all(isinstance(v, nn.Module) for v in value)


def explain_list_module(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an nn.ModuleList is called although it has no `forward`."""
    is_call = isinstance(scene.node, ast.Call) and type(scene.callee) is nn.ModuleList
    return conclude("list_called", scene.write(scene.node.func)) if is_call else None  # type: ignore[union-attr]


def explain_subscript(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an object is indexed that cannot be indexed."""
    if not isinstance(scene.node, ast.Subscript) or not scene.direct:
        return None
    node, kind = scene.node.value, match["type"]
    if isinstance(scene.find(node), nn.Module):
        return None  # its weight may be meant, its result, or a list of layers
    return explain_thing(scene, node, kind, "has no parts")


def explain_iteration(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that code loops over or unpacks None or a single number."""
    node = scene.node if scene.direct else None
    around = scene.tree.parents.get(node) if node is not None else None
    if isinstance(node, ast.Tuple | ast.List) and isinstance(around, ast.Assign):
        node = around.value
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        node = node.generators[0].iter
    if match["type"] == "NoneType" and node is not None:
        return explain_none(scene, node)
    if match["type"] in NUMBER_TYPES and isinstance(node, ast.expr):
        value = scene.find(node)
        what = value if type(value) in (int, float) else _add_article(match["type"])
        return conclude("number_iterated", f"{scene.write(node)} is {what}")
    return None


def explain_argument(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a function of torch is given an argument that is not a tensor."""
    if not isinstance(scene.node, ast.Call):
        return None
    node = _find_argument(scene, scene.node, int(match["position"]))
    return explain_thing(scene, node, match["type"], f"`{match['function']}` takes a tensor")


def _find_argument(scene: Scene, call: ast.Call, position: int) -> ast.expr | None:
    """Return the expression that is an argument of a function of torch, if that is certain."""
    is_method = isinstance(call.func, ast.Attribute) and is_tensor(scene.find(call.func.value))
    if len(call.args) == 1 and not call.keywords:
        return call.args[0]
    if not scene.direct or is_method or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    return call.args[position - 1] if position <= len(call.args) else None


def explain_element(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that objects that are not tensors are passed to a concatenation."""
    if not isinstance(scene.node, ast.Call) or not scene.direct:
        return None
    parts = scene.node.args[0] if scene.node.args else None
    number = int(match["number"])
    node = parts.elts[number] if isinstance(parts, ast.List | ast.Tuple) else None
    if isinstance(parts, ast.ListComp):
        node, listed = parts.elt, scene.find(parts.generators[0].iter)
        is_item = scene.tree.get_text(node) == scene.tree.get_text(parts.generators[0].target)
        if is_item and (type(listed) is nn.ModuleList or _holds_layers(listed)):
            return conclude("layer_not_called", f"{scene.write(node)} is the layer")
    return explain_thing(scene, node, match["type"], "is to be joined")


def explain_condition(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a tensor with several elements is used as a condition."""
    node = scene.node
    asked = node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else node
    if not scene.direct or not isinstance(asked, ast.expr):
        return None
    return conclude("tensor_as_condition", scene.write(asked))


def explain_scalar(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a tensor with several elements is converted to a single number."""
    if not scene.direct or not isinstance(scene.node, ast.Call):
        return None
    call = scene.node
    nodes = [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
    tensors = [(n, t) for n in nodes if (t := scene.find_tensor(n)) is not None and t.numel() != 1]
    written = scene.write(call.func)
    if len(tensors) != 1:
        return conclude("tensor_as_number", f"by {written}")
    node, tensor = tensors[0]
    return conclude("tensor_as_number", f"{scene.write(node)} has the shape ", tuple(tensor.shape))


def explain_not_a_number(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a function of numbers is given an object that is not a number."""
    if not scene.direct or not isinstance(scene.node, ast.Call) or len(scene.node.args) != 1:
        return None
    if match["type"] == "NoneType":
        return explain_none(scene, scene.node.args[0])
    what = "a whole shape" if match["type"] == "torch.Size" else _add_article(match["type"])
    return conclude("not_a_number", f"{scene.write(scene.node.args[0])} is {what}")


def explain_conversion(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that the tensors to be concatenated are not passed in a list."""
    if not isinstance(scene.node, ast.Call) or not scene.direct or not scene.node.args:
        return None
    first = scene.node.args[0]
    tensor = scene.find_tensor(first)
    if tensor is None and scene.find(first) is not UNKNOWN:
        return None
    given = len(scene.node.args)
    many = f", and {count(given, 'arguments')} are given" * (given > 1)
    return conclude("tensors_not_listed", f"{scene.write(first)} is one tensor{many}")


PATTERNS: Patterns = {
    TypeError: {
        r"unsupported operand type\(s\) for (?P<op>.+?): '(?P<left>[\w.]+)' and "
        r"'(?P<right>[\w.]+)'": explain_operands,
        r"'(?P<type>[\w.]+)' object is not callable": explain_callee,
        r"'(?P<type>[\w.]+)' object is not subscriptable": explain_subscript,
        r"'(?P<type>[\w.]+)' object is not iterable": explain_iteration,
        r"cannot unpack non-iterable (?P<type>\w+) object": explain_iteration,
        r"\w+\(\): argument '\w+' \(position 1\) must be tuple of "
        r"Tensors, not Tensor": explain_conversion,
        r"(?P<function>\w+)\(\): argument '\w+' \(position (?P<position>\d+)\) must be "
        r"Tensor, not (?P<type>[\w.]+)": explain_argument,
        r"expected Tensor as element (?P<number>\d+) in argument 0, but got "
        r"(?P<type>\w+)": explain_element,
        r"only integer tensors of a single element can be converted": explain_scalar,
        r"must be real number, not (?P<type>[\w.]+)": explain_not_a_number,
    },
    NotImplementedError: {r"Module \[ModuleList\] is missing the required": explain_list_module},
    RuntimeError: {
        r"Boolean value of Tensor with more than one value": explain_condition,
        r"a Tensor with \d+ elements cannot be converted to Scalar": explain_scalar,
    },
    ValueError: {r"only one element tensors can be converted": explain_scalar},
}
