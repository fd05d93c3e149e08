"""The axes of tokens in the order of a module, and back in the usual order."""

import math

import torch
from torch import Tensor

CUT = ("batch heads tokens width", "batch tokens heads width")
"""the orders of axes in which tokens are already split into heads"""
WINDOWS = "batch height width channels"
"""the order of axes of images whose windows are sequences of the usual batch"""
ONE_WINDOW = "batch rows columns channels"
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
        case "batch height width channels" if tokens.dim() < 4:
            return lay_windows(tokens if tokens.dim() == 3 else tokens[None])
        case "batch rows columns channels" if tokens.dim() < 4:
            return lay_windows(tokens if tokens.dim() == 3 else tokens[None], alone=True)
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


def lay_windows(windows: Tensor, *, alone: bool = False) -> Tensor:
    """Lay square windows in one row for each image; of four or more, an even number makes two.

    Windows that are alone have an image each. Raises ValueError if they are not square.
    """
    side, count = math.isqrt(windows.shape[1]), len(windows)
    images = count if alone else 2 if count > 2 and count % 2 == 0 else 1
    if side**2 != windows.shape[1]:
        raise ValueError(f"{windows.shape[1]} pixels are no square window")
    rows = windows.unflatten(1, (side, side)).unflatten(0, (images, -1))
    laid: Tensor = rows.transpose(1, 2).flatten(2, 3)
    return laid


def cut_windows(images: Tensor) -> Tensor:
    """Cut images of one row of windows into these; others stay as they are."""
    side = images.shape[1]
    if not side or images.shape[2] % side:
        return images
    rows = images.unflatten(2, (-1, side)).transpose(1, 2)
    windows: Tensor = rows.flatten(0, 1).flatten(1, 2)
    return windows


def restore_axes(output: Tensor, axes: str) -> Tensor:
    """Return an output with its axes in the usual order, if it has all of them."""
    match axes:
        case "tokens batch width" if output.dim() > 1:
            return output.transpose(0, 1)
        case "batch width tokens" if output.dim() > 1:
            return output.mT
        case "batch width rows columns" | "batch channels rows columns" if output.dim() > 2:
            return output.flatten(-2).mT
        case "batch height width channels" if output.dim() == 4:
            return cut_windows(output)
        case "batch rows columns channels" if output.dim() == 4:
            return output.flatten(1, 2)
        case "batch frames tokens width" if output.dim() == 4:
            return output.flatten(0, 1)
        case "batch heads tokens width" if output.dim() == 4:
            return output.transpose(1, 2).flatten(-2)
        case "batch tokens heads width" if output.dim() == 4:
            return output.flatten(-2)
    return output
