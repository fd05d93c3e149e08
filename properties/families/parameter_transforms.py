"""The parameters of a trial with a few of them replaced: what most metamorphic claims work with."""

import torch
from torch import Tensor

from properties.harness.case_context import CaseContext
from reference import Parameters


def replace_parameters(context: CaseContext, **changes: Tensor) -> Parameters:
    """The case's parameters, some of them replaced; those that do not exist stay away."""
    present = dict(context.parameters.items())
    return Parameters(**{**present, **{n: t for n, t in changes.items() if n in present}})


def zero_parameters(context: CaseContext, *names: str) -> dict[str, Tensor]:
    """Zeros in place of these parameters, where they exist."""
    present = dict(context.parameters.items())
    return {n: torch.zeros_like(present[n]) for n in names if n in present}


def rotate_within_heads(tensor: Tensor, heads: int) -> Tensor:
    """The rows of each head in another order, every other one with the opposite sign.

    A rotation (or reflection) that rounds nothing, so that its effect is exact in every dtype.
    """
    rows = tensor.reshape(heads, -1, *tensor.shape[1:]).roll(1, dims=1)
    signs = 1 - 2 * (torch.arange(rows.shape[1]) % 2)
    return (rows * signs.view(1, -1, *(1,) * (rows.dim() - 2))).flatten(0, 1)


def permute_heads(tensor: Tensor, order: Tensor) -> Tensor:
    """The blocks of rows that belong to the heads, in another order."""
    return tensor.reshape(len(order), -1, *tensor.shape[1:])[order].flatten(0, 1)
