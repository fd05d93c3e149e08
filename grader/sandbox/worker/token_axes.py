"""The axes of tokens in the order of a module, and back in the usual order."""

import math

import torch
from torch import Tensor

CUT = ("batch heads tokens width", "batch tokens heads width")
"""the orders of axes in which tokens are already split into heads"""
WINDOW = "batch rows columns channels"
"""the order of axes of images each of which is one window, and a sequence of the usual batch"""
BESIDE_CONTEXT = "batch channels rows columns"
"""the order of axes of images beside a context whose axes are in the usual order"""
FRAMES = "batch frames tokens width"
"""the order of axes in which a batch has frames; here they are sequences of the usual batch"""


def order_axes(tokens: Tensor, axes: str, heads: int) -> Tensor:
    """Reorder the axes of tokens, (batch, tokens, width) or (tokens, width), as `axes` says."""
    match axes:
        case "tokens batch width":
            return tokens.transpose(0, 1)
        case "batch width tokens":
            return tokens.mT
        case "batch width rows columns" | "batch channels rows columns":
            count = tokens.shape[-2]
            rows = max((n for n in range(1, math.isqrt(count) + 1) if count % n == 0), default=1)
            return torch.unflatten(tokens.mT, -1, (rows, count // rows))
        case "batch rows columns channels" if tokens.dim() < 4:
            return lay_window(tokens)
        case "batch frames tokens width" if tokens.dim() == 3:
            return torch.unflatten(tokens, 0, (-1, 1 if len(tokens) % 2 else 2))
        case "batch heads tokens width":
            return torch.unflatten(tokens, -1, (heads, -1)).transpose(1, 2)
        case "batch tokens heads width":
            return torch.unflatten(tokens, -1, (heads, -1))
    return tokens


def find_width(axes: str) -> int:
    """Return which axis holds the width of tokens."""
    return 1 if axes.startswith(("batch width", "batch channels")) else -1


def lay_window(tokens: Tensor) -> Tensor:
    """Lay the tokens of each sequence as a square. Raises ValueError if they fill none."""
    count = tokens.shape[-2]
    if (side := math.isqrt(count)) ** 2 != count:
        raise ValueError(f"{count} pixels are no square window")
    image: Tensor = tokens.unflatten(-2, (side, side))
    return image if tokens.dim() == 3 else image[None]


def restore_axes(output: Tensor, axes: str) -> Tensor:
    """Return an output with its axes in the usual order, if it has all of them."""
    match axes:
        case "tokens batch width" if output.dim() > 1:
            return output.transpose(0, 1)
        case "batch width tokens" if output.dim() > 1:
            return output.mT
        case "batch width rows columns" | "batch channels rows columns" if output.dim() > 2:
            return output.flatten(-2).mT
        case "batch rows columns channels" if output.dim() == 4:
            return output.flatten(1, 2)
        case "batch frames tokens width" if output.dim() == 4:
            return output.flatten(0, 1)
        case "batch heads tokens width" if output.dim() == 4:
            return output.transpose(1, 2).flatten(-2)
        case "batch tokens heads width" if output.dim() == 4:
            return output.flatten(-2)
    return output
