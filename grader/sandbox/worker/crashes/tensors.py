"""Crashes due to the contents of tensors: booleans or floats, dtypes, gradients, shared memory."""

import ast
import re
from collections.abc import Iterator

import torch
from torch import Tensor

from headcheck.grader.sandbox.sentences import Finding, conclude
from headcheck.grader.sandbox.worker.crashes.scene import Patterns, Scene

Operand = tuple[ast.expr, Tensor]
"""an expression, and the tensor that was its value"""


def iter_operands(scene: Scene) -> Iterator[Operand]:
    """Yield the tensors that the failing operation was given, as far as they are known."""
    match scene.node:
        case ast.BinOp(left=left, right=right):
            nodes = [left, right]
        case ast.AugAssign(target=left, value=right):
            nodes = [left, right]
        case ast.Compare(left=left, comparators=others):
            nodes = [left, *others]
        case ast.UnaryOp(operand=operand):
            nodes = [operand]
        case ast.Subscript(value=base, slice=index):
            nodes = [base, *(index.elts if isinstance(index, ast.Tuple) else [index])]
        case ast.Call(func=ast.Attribute(value=base), args=given, keywords=named):
            nodes = [base, *given, *(keyword.value for keyword in named)]
        case ast.Call(args=given, keywords=named):
            nodes = [*given, *(keyword.value for keyword in named)]
        case _:
            nodes = []
    known = ((node, scene.find_tensor(node)) for node in nodes)
    yield from ((node, tensor) for node, tensor in known if tensor is not None)


def name_dtype(dtype: torch.dtype) -> str:
    """Return the name of a dtype as it is written after `torch.`."""
    return str(dtype).removeprefix("torch.")


def explain_inverted(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that `~` is applied to floats."""
    if not isinstance(scene.node, ast.UnaryOp) or not isinstance(scene.node.op, ast.Invert):
        return None
    tensor = scene.find_tensor(scene.node.operand)
    kind = "" if tensor is None else f" is {name_dtype(tensor.dtype)}"
    return conclude("floats_inverted", scene.write(scene.node.operand) + kind)


def explain_subtracted(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that booleans are subtracted or negated."""
    if not isinstance(scene.node, ast.BinOp | ast.UnaryOp | ast.AugAssign):
        return None
    nodes = [node for node, tensor in iter_operands(scene) if tensor.dtype == torch.bool]
    return conclude("booleans_subtracted", f"{scene.write(nodes[0])} is boolean" if nodes else "")


def explain_mask_dtype(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that the dtype of a mask is not bool."""
    if not isinstance(scene.node, ast.Call) or not scene.node.args:
        return None
    mask = scene.node.args[0]
    tensor = scene.find_tensor(mask)
    if tensor is not None and tensor.dtype != torch.bool:
        return conclude("mask_not_boolean", f"{scene.write(mask)} is {name_dtype(tensor.dtype)}")
    return conclude("mask_not_boolean", f"its dtype is {match['dtype'].lower()}")


def explain_dtypes(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an operation was given tensors of two dtypes, but needs a single one."""
    if not isinstance(scene.node, ast.BinOp | ast.AugAssign | ast.Call):
        return None
    said = [f"{scene.write(n)} is {name_dtype(t.dtype)}" for n, t in iter_operands(scene)]
    weight = getattr(scene.callee, "weight", None) if isinstance(scene.node, ast.Call) else None
    if isinstance(weight, Tensor) and isinstance(scene.node, ast.Call):
        said.append(f"the weight of {scene.write(scene.node.func)} is {name_dtype(weight.dtype)}")
    if len({each.rpartition(" ")[2] for each in said}) < 2:
        said = [f"one is {match['one'].lower()}, the other {match['other'].lower()}"]
    return conclude("dtypes_differ", ", ".join(dict.fromkeys(said)))


def explain_numpy(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that NumPy is given a tensor that requires a gradient."""
    return None if scene.node is None else conclude("gradient_to_numpy", scene.write(scene.node))


def explain_changed(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a parameter, an input or an expanded tensor is changed in place."""
    changed = find_changed(scene)
    name = "parameter_in_place" if "leaf Variable" in scene.text else "shared_in_place"
    return None if changed is None else conclude(name, changed)


def find_changed(scene: Scene) -> str | None:
    """Quote the tensor that is changed in place."""
    match scene.node:
        case ast.AugAssign(target=target):
            return scene.write(target)
        case ast.Subscript(value=base):
            return scene.write(base)
        case ast.Call(func=ast.Attribute(value=base, attr=name)) if name.endswith("_"):
            return scene.write(base)
    return None


def explain_changed_before_backward(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a tensor needed for the gradient was changed; the line is not known."""
    shape = tuple(int(number) for number in re.findall(r"\d+", match["shape"]))
    return conclude("in_place_before_backward", "it has the shape ", shape)


PATTERNS: Patterns = {
    TypeError: {r"~ \(operator\.invert\) is only implemented on": explain_inverted},
    RuntimeError: {
        r"\"bitwise_not_cpu\" not implemented for": explain_inverted,
        r"(?:Subtraction|Negation), the `-` operator, (?:with|on) "
        r"a bool tensor": explain_subtracted,
        r"masked_fill_? only supports boolean masks, but got mask with dtype "
        r"(?P<dtype>[\w ]+)": explain_mask_dtype,
        r"where expected condition to be a boolean tensor, but got a tensor with dtype "
        r"(?P<dtype>\w+)": explain_mask_dtype,
        r"expected m1 and m2 to have the same dtype, but got: (?P<one>[\w:]+) != "
        r"(?P<other>[\w:]+)$": explain_dtypes,
        r"mat1 and mat2 must have the same dtype, but got (?P<one>\w+) and "
        r"(?P<other>\w+)$": explain_dtypes,
        r"expected scalar type (?P<one>\w+) but found (?P<other>\w+)$": explain_dtypes,
        r"Can't call numpy\(\) on Tensor that requires grad": explain_numpy,
        r"a (?:view of a )?leaf Variable that requires grad is being used "
        r"in an in-place": explain_changed,
        r"unsupported operation: more than one element of the written-to tensor": explain_changed,
        r"one of the variables needed for gradient computation has been modified by an "
        r"inplace operation: \[[\w.]+ \[(?P<shape>[\d, ]*)\]": explain_changed_before_backward,
    },
}
