"""Guess what a class is meant to compute, if that differs from what it computes."""

import re
from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

from headcheck.properties.binding.calls import find_mask_name
from headcheck.properties.binding.signature import Signature
from headcheck.properties.subject import Module, TensorInfo

CAUSAL_NAME = re.compile(r"causal|autoregressive|gpt|language_?model", re.IGNORECASE)


def expects_causality(
    signature: Signature, module: Module, tensors: Mapping[str, TensorInfo]
) -> bool:
    """Whether a class is meant to hide later tokens: its name says so, or it stores a triangle."""
    if signature.causal is not None:
        return signature.causal
    if CAUSAL_NAME.search(signature.name):
        return True
    if find_mask_name(signature.call) is not None:
        return False
    square = [
        path
        for path, info in tensors.items()
        if info.kind == "buffer" and len(info.shape) > 1 and info.shape[-1] == info.shape[-2] > 1
    ]
    found = module.read(square).values() if square else ()
    return any(_is_triangle(tensor.squeeze()) for tensor in found if tensor.squeeze().dim() == 2)


def _is_triangle(table: Float[Tensor, "n n"]) -> bool:
    """Whether all entries above the diagonal are one number, and other numbers are below it."""
    numbers = table.float().nan_to_num(neginf=-1.0)
    marked = numbers != numbers[0, -1]
    return bool(marked.tril().equal(marked) and marked.any())
