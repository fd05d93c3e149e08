"""The axes of tokens in the order of a module, and back in the usual order."""

import math

import torch
from torch import Tensor

CUT = ("batch heads tokens width", "batch tokens heads width")
"""the orders of axes in which tokens are already split into heads"""
FRAMES = "batch frames tokens width"
"""the order of axes in which a batch has frames; here they are sequences of the usual batch"""


def order_axes(tokens: Tensor, axes: str, heads: int) -> Tensor:
    """Reorder the axes of tokens, (batch, tokens, width) or (tokens, width), as `axes` says."""
    match axes:
        case "tokens batch width":
            return tokens.transpose(0, 1)
        case "batch width tokens":
            return tokens.mT
        case "batch width rows columns":
            count = tokens.shape[-2]
            rows = max((n for n in range(1, math.isqrt(count) + 1) if count % n == 0), default=1)
            return torch.unflatten(tokens.mT, -1, (rows, count // rows))
        case "batch frames tokens width" if tokens.dim() == 3:
            return torch.unflatten(tokens, 0, (-1, 1 if len(tokens) % 2 else 2))
        case "batch heads tokens width":
            return torch.unflatten(tokens, -1, (heads, -1)).transpose(1, 2)
        case "batch tokens heads width":
            return torch.unflatten(tokens, -1, (heads, -1))
    return tokens


def restore_axes(output: Tensor, axes: str) -> Tensor:
    """Return an output with its axes in the usual order, if it has all of them."""
    match axes:
        case "tokens batch width" if output.dim() > 1:
            return output.transpose(0, 1)
        case "batch width tokens" if output.dim() > 1:
            return output.mT
        case "batch width rows columns" if output.dim() > 2:
            return output.flatten(-2).mT
        case "batch frames tokens width" if output.dim() == 4:
            return output.flatten(0, 1)
        case "batch heads tokens width" if output.dim() == 4:
            return output.transpose(1, 2).flatten(-2)
        case "batch tokens heads width" if output.dim() == 4:
            return output.flatten(-2)
    return output
