"""Crashes due to shapes that do not match each other or the number of elements."""

import ast
import math
import re

import torch
from torch.nn import functional

from headcheck.grader.sandbox.sentences import Finding, conclude, count
from headcheck.grader.sandbox.worker.crashes.products import (
    compare,
    explain_product,
    find_factors,
    find_operand,
    parse_shape,
    show,
)
from headcheck.grader.sandbox.worker.crashes.scene import Patterns, Scene
from headcheck.grader.sandbox.worker.crashes.tensors import Operand, find_changed, iter_operands

MASK_NAME = re.compile(r"mask|causal|tri[lu]|future|bias", re.IGNORECASE)
"""words that occur in the names of masks that are added or multiplied"""


def explain_broadcast(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that two tensors, or two stacks of matrices, cannot be broadcast together."""
    if find_factors(scene) is not None:
        return explain_product(scene, match)
    if not scene.direct:
        return None
    if scene.callee is functional.scaled_dot_product_attention:
        return _explain_fused(scene)
    operands = [each for each in iter_operands(scene) if each[1].dim()]
    return _explain_uncut(scene, operands) or _explain_unlike(scene, operands)


def _explain_uncut(scene: Scene, operands: list[Operand]) -> Finding | None:
    """Explain that a mask is longer than the scores, which have the length of the input."""
    if len(operands) != 2:
        return None
    scores, mask = sorted(operands, key=lambda each: max(each[1].shape[-2:]))
    if scores[1].dim() < 2 or mask[1].dim() < 2:
        return None
    queries, keys = scores[1].shape[-2:]
    rows, columns = mask[1].shape[-2:]
    is_longer = queries == keys and min(rows, columns) >= keys and max(rows, columns) > keys
    if not is_longer or math.prod(mask[1].shape[:-2]) != 1:
        return None
    fills = isinstance(scene.node, ast.Call | ast.Subscript) and mask[1].dtype == torch.bool
    named = MASK_NAME.search(scene.tree.get_text(mask[0]))
    return conclude("mask_not_cut", *compare(scene, scores, mask)) if fills or named else None


def _explain_fused(scene: Scene) -> Finding | None:
    """Explain that the mask given to torch's attention is longer than the keys."""
    assert isinstance(scene.node, ast.Call), "it is called"
    named = {keyword.arg: keyword.value for keyword in scene.node.keywords}
    nodes = [*scene.node.args[:2], *scene.node.args[3:4], *filter(None, [named.get("attn_mask")])]
    known = [operand for node in nodes if (operand := find_operand(scene, node)) is not None]
    if len(known) != 3 or min(tensor.dim() for _, tensor in known) < 2:
        return None
    query, key, mask = known
    queries, keys, columns = query[1].shape[-2], key[1].shape[-2], mask[1].shape[-1]
    if queries != keys or columns <= keys or math.prod(mask[1].shape[:-2]) != 1:
        return None
    return conclude("mask_not_cut", *compare(scene, key, mask))


def _explain_unlike(scene: Scene, operands: list[Operand]) -> Finding | None:
    for number, one in enumerate(operands):
        for other in operands[number + 1 :]:
            if not _fit(one, other):
                return conclude("not_broadcast", *compare(scene, one, other))
    is_operator = isinstance(scene.node, ast.BinOp | ast.AugAssign)
    return conclude("not_broadcast", f"in {scene.write(scene.node)}") if is_operator else None


def _fit(one: Operand, other: Operand) -> bool:
    pairs = zip(reversed(one[1].shape), reversed(other[1].shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def explain_written(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that the shape of a result does not match the tensor into which it is written."""
    if scene.callee is functional.scaled_dot_product_attention:
        return _explain_fused(scene)
    changed = find_changed(scene)
    if changed is None:
        return None
    uncut = _explain_uncut(scene, [each for each in iter_operands(scene) if each[1].dim()])
    there, result = parse_shape(match["target"]), parse_shape(match["result"])
    return uncut or conclude("result_too_large", f"{changed} is ", there, ", the result ", result)


def explain_mask_index(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a boolean mask used as an index does not match the first axes."""
    if not isinstance(scene.node, ast.Subscript):
        return None
    mask, tensor = parse_shape(match["mask"]), parse_shape(match["tensor"])
    said = f", {scene.write(scene.node.value)} is "
    uncut = _explain_uncut(scene, list(iter_operands(scene)))
    return uncut or conclude("mask_index", "the mask is ", mask, said, tensor)


def explain_elements(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a new shape has a different number of elements."""
    if not isinstance(scene.node, ast.Call) or not scene.direct:
        return None
    asked, there = parse_shape(match["shape"]), int(match["count"])
    base = find_operand(scene, _find_reshaped(scene, scene.node))
    own = ("", "") if base is None or base[1].numel() != there else show(scene, base)
    needed = math.prod(length for length in asked if length >= 0)
    multiple = "a multiple of " * (-1 in asked)
    between = f"{', with ' if own[0] else ''}{count(there, 'numbers')}; "
    return conclude("number_of_elements", *own, between, asked, f" needs {multiple}{needed}")


def _find_reshaped(scene: Scene, node: ast.Call) -> ast.expr | None:
    match node:
        case ast.Call(args=[first, *_]) if scene.callee is torch.reshape:
            return first
        case ast.Call(func=ast.Attribute(value=base, attr=name)) if name in ("view", "reshape"):
            return base
    return None


def explain_unflattened(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that the lengths into which an axis is split do not multiply to its length."""
    parts = parse_shape(match["shape"])
    return conclude("number_of_elements", parts, f" make {math.prod(parts)}, not {match['count']}")


def explain_not_contiguous(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a view would need the numbers in a different order in memory."""
    match scene.node:
        case ast.Call(func=ast.Attribute(value=base, attr="view")):
            given = ", the input, which may lie in memory in any order" * scene.is_argument(base)
            return conclude("not_contiguous", scene.write(base) + given)
    return None


PATTERNS: Patterns = {
    RuntimeError: {
        r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\) at "
        r"non-singleton": explain_broadcast,
        r"The expanded size of the tensor \(\d+\) must match": explain_broadcast,
        r"output with shape \[(?P<target>[\d, ]*)\] doesn't match the broadcast shape "
        r"\[(?P<result>[\d, ]*)\]": explain_written,
        r"shape '\[(?P<shape>[-\d, ]*)\]' is invalid for input of size "
        r"(?P<count>\d+)": explain_elements,
        r"unflatten: Provided sizes \[(?P<shape>[\d, ]*)\] don't multiply up to the size of dim "
        r"\d+ \((?P<count>\d+)\)": explain_unflattened,
        r"view size is not compatible with input tensor's size": explain_not_contiguous,
    },
    IndexError: {
        r"The shape of the mask \[(?P<mask>[\d, ]*)\] at index \d+ does not match the shape of "
        r"the indexed tensor \[(?P<tensor>[\d, ]*)\]": explain_mask_index,
    },
}
