"""Modules are moved to other dtypes and devices, and calls of a moved one are followed."""

import contextlib

import torch
from torch import Tensor, nn

from grader.sandbox.worker import second_device
from grader.sandbox.worker.left_behind import MixedDtypeMode, UnmovedTracker


def parse_dtype(name: str | None) -> torch.dtype | None:
    """The dtype with this name."""
    found: torch.dtype | None = getattr(torch, name) if name else None
    return found


def move(target: object, device: str | None, dtype: torch.dtype | None) -> None:
    """`.to(device, dtype)`, for what knows it."""
    if not isinstance(target, nn.Module):
        return
    if device == second_device.DEVICE_NAME:
        second_device.move_to_second_device(target, dtype)
    else:
        target.to(device, dtype)


def send_input(tensor: Tensor, device: str) -> Tensor:
    """An input of a call on this device."""
    on_second = device == second_device.DEVICE_NAME
    return second_device.RemoteTensor(tensor) if on_second else tensor.to(device)


def track_call(
    unmoved: UnmovedTracker, device: str, dtype: torch.dtype | None
) -> contextlib.AbstractContextManager[object]:
    """Follow a call of what was moved to this device, or to this dtype, for what did not move.

    Where a GPU would refuse that, the call raises; the rest is kept in `unmoved`.
    """
    if device == second_device.DEVICE_NAME:
        return second_device.enable_second_device(unmoved)
    return contextlib.nullcontext() if dtype is None else MixedDtypeMode(unmoved, dtype)
