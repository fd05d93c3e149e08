"""Crashes in products of matrices, and in linear layers."""

import ast
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from headcheck.grader.sandbox.sentences import Finding, Piece, conclude, count
from headcheck.grader.sandbox.worker.crashes.scene import Patterns, Scene
from headcheck.grader.sandbox.worker.crashes.tensors import Operand, iter_operands
from headcheck.grader.sandbox.worker.crashes.values import is_one_of, is_tensor, list_attributes

PRODUCTS: tuple[Callable[..., Any], ...] = (torch.matmul, torch.mm, torch.bmm)
SUMS: tuple[Callable[..., Any], ...] = (torch.addmm, torch.baddbmm)
PRODUCT_METHODS = ("matmul", "mm", "bmm")
EXCHANGES = ("transpose", "permute", "mT", "T", "t", "swapaxes")
"""methods and attributes of tensors that swap axes"""


def parse_shape(text: str) -> tuple[int, ...]:
    """Return the numbers in an error's text as a shape."""
    return tuple(int(number) for number in re.findall(r"-?\d+", text))


def show(scene: Scene, operand: Operand) -> tuple[Piece, ...]:
    """Say which shape a tensor has."""
    node, tensor = operand
    return f"{scene.write(node)} is ", tuple(tensor.shape)


def compare(scene: Scene, one: Operand, other: Operand) -> tuple[Piece, ...]:
    """Say which shapes two tensors have."""
    return *show(scene, one), ", ", *show(scene, other)


def find_operand(scene: Scene, node: ast.expr | None) -> Operand | None:
    """Return an expression with its tensor; None if the tensor is unknown."""
    tensor = scene.find_tensor(node)
    return None if node is None or tensor is None else (node, tensor)


def find_factors(scene: Scene) -> tuple[ast.expr, ast.expr] | None:
    """Return the two factors, if the failed operation is a product of matrices."""
    match scene.node:
        case (
            ast.BinOp(left=left, op=ast.MatMult(), right=right)
            | ast.AugAssign(target=left, op=ast.MatMult(), value=right)
        ):
            return left, right
        case ast.Call(args=[left, right]) if is_one_of(scene.callee, PRODUCTS):
            return left, right
        case ast.Call(func=ast.Attribute(value=left, attr=name), args=[right]):
            is_product = name in PRODUCT_METHODS and scene.find_tensor(left) is not None
            return (left, right) if is_product else None
    return None


def explain_product(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that two tensors cannot be multiplied as matrices."""
    if isinstance(scene.callee, nn.Linear):
        return _explain_layer(scene, scene.callee)
    if scene.callee is functional.linear:
        operands = list(iter_operands(scene))[:2]
        known = len(operands) == 2
        return conclude("product_widths", *compare(scene, *operands)) if known else None
    factors = find_factors(scene)
    if factors is None:
        return None
    left, right = find_operand(scene, factors[0]), find_operand(scene, factors[1])
    if left is not None and right is not None:
        return _explain_factors(scene, left, right)
    if "one" not in match.groupdict():
        return None
    one, other = parse_shape(match["one"]), parse_shape(match["other"])
    said = f"{scene.write(factors[0])} times {scene.write(factors[1])}: "
    return conclude("product_widths", said, one, " times ", other)


def _explain_factors(scene: Scene, left: Operand, right: Operand) -> Finding | None:
    """Explain a product of two tensors whose shapes are known."""
    one, other = left[1].shape, right[1].shape
    exchanged = find_operand(scene, _find_exchanged(right[0]))
    if exchanged is not None and len(other) > 2:
        if isinstance(right[0], ast.Attribute) and right[0].attr == "T":
            return conclude("all_axes_turned", *compare(scene, exchanged, right))
        if _exchanges_others(scene, right[0], len(other)):
            return conclude("other_axes_transposed", *compare(scene, exchanged, right))
    said = compare(scene, left, right)
    if min(len(one), len(other)) < 2:
        return conclude("product_widths", *said)
    if one[-1] == other[-2]:
        return conclude("product_batches", *said)
    if other[-2] == 1 and one[-1] == one[-2] and (mask := _find_mask(scene, one[-1])):
        return conclude("mask_not_cut", f"`self.{mask}` made the scores as long as itself; ", *said)
    # A matrix to the left of tokens is a layer: the factors are exchanged, too.
    if one[-1] == other[-1] and exchanged is None and len(one) >= len(other):
        return conclude("not_transposed", *said)
    lengths = f"; {count(one[-1], 'columns')} cannot be multiplied with {count(other[-2], 'rows')}"
    return conclude("product_widths", *said, lengths)


def _find_mask(scene: Scene, length: int) -> str | None:
    """Return the attribute that holds a module's causal mask of this length, if there is one.

    The scores of a single token would broadcast to the shape of such a mask.
    """
    for name, value in list_attributes(scene.instance).items():
        if is_tensor(value) and tuple(value.shape[-2:]) == (length, length):
            zero = value.detach() == 0
            is_half = torch.equal(zero, zero.triu(1)) or torch.equal(zero, zero.tril())
            if is_half and bool(zero.any()):
                return name
    return None


def _find_exchanged(node: ast.expr) -> ast.expr | None:
    """Return the tensor whose axes an expression swaps, if it swaps any."""
    read = node.func if isinstance(node, ast.Call) else node
    return read.value if isinstance(read, ast.Attribute) and read.attr in EXCHANGES else None


def _exchanges_others(scene: Scene, node: ast.expr, axes: int) -> bool:
    """Whether `transpose` is called with other axes than the last two."""
    match node:
        case ast.Call(func=ast.Attribute(attr="transpose"), args=[one, other]):
            exchanged = [scene.find(one), scene.find(other)]
            known = all(type(axis) is int for axis in exchanged)
            return known and {axis % axes for axis in exchanged} != {axes - 2, axes - 1}
    return False


def _explain_layer(scene: Scene, layer: nn.Linear) -> Finding | None:
    """Explain that a linear layer is given vectors whose width does not match its weight."""
    if not isinstance(scene.node, ast.Call) or len(scene.node.args) != 1:
        return None
    gives, takes = layer.weight.shape
    said = f"{scene.write(scene.node.func)} takes vectors of width {takes} and gives {gives}"
    given = find_operand(scene, scene.node.args[0])
    if given is None:
        return conclude("linear_width", said)
    width = given[1].shape[-1] if given[1].dim() else 0
    if width == takes:
        return None
    return conclude("linear_width", said, "; ", *show(scene, given))


def explain_number_of_axes(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a function takes only matrices or batches of them."""
    is_known = find_factors(scene) is not None or is_one_of(scene.callee, SUMS)
    if not is_known or not isinstance(scene.node, ast.Call):
        return None
    shown = (piece for each in iter_operands(scene) for piece in (", ", *show(scene, each)))
    return conclude("matrices_only", scene.write(scene.node.func), *shown)


PATTERNS: Patterns = {
    RuntimeError: {
        r"mat1 and mat2 shapes cannot be multiplied \((?P<one>\d+x\d+) and "
        r"(?P<other>\d+x\d+)\)": explain_product,
        r"Expected size for first two dimensions of batch2 tensor": explain_product,
        r"size mismatch, got input": explain_product,
        r"inconsistent tensor size, expected tensor": explain_product,
        r"(?:mat1|mat2|self|batch1|batch2) must be a (?:matrix|3D tensor)": explain_number_of_axes,
    },
}
