"""Crashes due to a wrong number of axes or parts: in unpacking, indexing and concatenation."""

import ast
import re

import torch

from headcheck.grader.sandbox.sentences import Finding, conclude, count
from headcheck.grader.sandbox.worker.crashes.products import find_operand, show
from headcheck.grader.sandbox.worker.crashes.scene import Patterns, Scene
from headcheck.grader.sandbox.worker.crashes.tensors import iter_operands
from headcheck.grader.sandbox.worker.crashes.values import is_tensor


def explain_unpacking(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that there are more or fewer names than values to unpack."""
    around = scene.tree.parents.get(scene.node) if scene.node is not None else None
    if not isinstance(scene.node, ast.Tuple | ast.List) or not isinstance(around, ast.Assign):
        return None
    names, value = count(int(match["names"]), "names"), scene.find(around.value)
    written = scene.write(around.value)
    if type(value) is torch.Size:
        return conclude("shape_unpacked", f"{written} is ", tuple(value), f", for {names}")
    if (known := find_operand(scene, around.value)) is not None:
        return conclude("tensor_unpacked", *show(scene, known), f", for {names}")
    parts = f" has {count(len(value), 'parts')}" if type(value) in (list, tuple) else ""
    return conclude("unpacked", f"{written}{parts}, for {names}")


def explain_axis(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a tensor has no axis of that number."""
    if not isinstance(scene.node, ast.Call):
        return None
    said = f"{match['axis']}, where there are {match['least']} to {match['most']}"
    first = next(iter_operands(scene), None)
    if first is None or first[1].dim() != int(match["most"]) + 1:
        return conclude("no_such_axis", said)
    return conclude("no_such_axis", said, "; ", *show(scene, first))


def explain_many_indices(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that there are more indices than axes."""
    if not isinstance(scene.node, ast.Subscript):
        return None
    known = find_operand(scene, scene.node.value)
    axes = f"{scene.write(scene.node.value)} has {count(int(match['axes']), 'axes')}"
    return conclude("too_many_indices", *((axes,) if known is None else show(scene, known)))


def explain_index(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an index is too large for its axis."""
    if not isinstance(scene.node, ast.Subscript):
        return None
    known = find_operand(scene, scene.node.value)
    said = f"{match['index']} along axis {match['axis']} of {scene.write(scene.node.value)}"
    shape = () if known is None else (", which is ", tuple(known[1].shape))
    return conclude("index_too_large", said, *shape)


def explain_part(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a shape or a list has fewer elements than the index needs."""
    if not isinstance(scene.node, ast.Subscript) or not scene.direct:
        return None
    value = scene.find(scene.node.value)
    written = scene.write(scene.node)
    if type(value) is torch.Size:
        return conclude("no_such_part", f"{written}, of the shape ", tuple(value))
    if type(value) in (list, tuple):
        return conclude("no_such_part", f"{written}, of {count(len(value), 'parts')}")
    return conclude("no_such_part", written)


def explain_joined(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that the shapes of tensors do not allow concatenating them."""
    if not isinstance(scene.node, ast.Call) or not scene.node.args:
        return None
    parts = scene.find(scene.node.args[0])
    listed = parts if type(parts) in (list, tuple) else ()
    shapes = [tuple(part.shape) for part in listed if is_tensor(part)]
    unlike = next((shape for shape in shapes if shape != shapes[0]), None)
    if unlike is None:
        return conclude("unlike_joined", scene.write(scene.node))
    return conclude("unlike_joined", "one is ", shapes[0], ", another ", unlike)


def explain_subscripts(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an einsum equation names more or fewer axes than an operand has."""
    said = f"{match['letters']} letters for operand {match['number']}"
    return conclude("subscript_count", f"{said}, which has {count(int(match['axes']), 'axes')}")


def explain_subscript_sizes(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a letter of an einsum equation stands for two different lengths."""
    said = f"`{match['letter']}` is {match['one']} and {match['other']}"
    return conclude("subscript_sizes", said)


def explain_permuted(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a permutation names too few or too many axes."""
    asked, axes = count(int(match["asked"]), "axes"), count(int(match["axes"]), "axes")
    return conclude("permuted_count", f"{asked} in the order, and {axes} in the tensor")


PATTERNS: Patterns = {
    ValueError: {
        r"(?:too many|not enough) values to unpack \(expected (?:at least "
        r")?(?P<names>\d+)": explain_unpacking,
    },
    IndexError: {
        r"Dimension out of range \(expected to be in range of \[(?P<least>-?\d+), "
        r"(?P<most>-?\d+)\], but got (?P<axis>-?\d+)\)": explain_axis,
        r"too many indices for tensor of dimension (?P<axes>\d+)": explain_many_indices,
        r"index (?P<index>-?\d+) is out of bounds for dimension "
        r"(?P<axis>\d+) with size": explain_index,
        r"(?:tuple|list) index out of range": explain_part,
    },
    RuntimeError: {
        r"Tensors must have same number of dimensions": explain_joined,
        r"Sizes of tensors must match except in dimension": explain_joined,
        r"stack expects each tensor to be equal size": explain_joined,
        r"einsum\(\): the number of subscripts in the equation \((?P<letters>\d+)\) "
        r"does not match the number of dimensions \((?P<axes>\d+)\) for operand "
        r"(?P<number>\d+)": explain_subscripts,
        r"einsum\(\): subscript (?P<letter>\w) has size (?P<one>\d+) for operand \d+ "
        r"which does not broadcast with previously seen size "
        r"(?P<other>\d+)": explain_subscript_sizes,
        r"permute\(.*input\.dim\(\) = (?P<axes>\d+) is not equal to len\(dims\) = "
        r"(?P<asked>\d+)": explain_permuted,
    },
}
