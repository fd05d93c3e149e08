"""Modules are moved to other dtypes and devices, and calls of a moved one are followed."""

import contextlib

import torch
from torch import Tensor, nn

from grader.sandbox.worker import second_device
from grader.sandbox.worker.left_behind import MixedDtypes, Unmoved


def dtype_of(name: str | None) -> torch.dtype | None:
    """The dtype with this name."""
    found: torch.dtype | None = getattr(torch, name) if name else None
    return found


def move(target: object, device: str | None, dtype: torch.dtype | None) -> None:
    """`.to(device, dtype)`, for what knows it."""
    if not isinstance(target, nn.Module):
        return
    if device == second_device.NAME:
        second_device.move_there(target, dtype)
    else:
        target.to(device, dtype)


def sent_to(tensor: Tensor, device: str) -> Tensor:
    """An input of a call on this device."""
    on_second = device == second_device.NAME
    return second_device.Remote(tensor) if on_second else tensor.to(device)


def following(
    unmoved: Unmoved, device: str, dtype: torch.dtype | None
) -> contextlib.AbstractContextManager[object]:
    """Follow a call of what was moved to this device, or to this dtype, for what did not move.

    Where a GPU would refuse that, the call raises; the rest is kept in `unmoved`.
    """
    if device == second_device.NAME:
        return second_device.second_device(unmoved)
    return contextlib.nullcontext() if dtype is None else MixedDtypes(unmoved, dtype)
