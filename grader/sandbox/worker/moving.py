"""Move modules to other dtypes and devices, and track calls of a moved module."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.worker import second_device
from headcheck.grader.sandbox.worker.left_behind import MixedDtypeMode, UnmovedTracker


def parse_dtype(name: str | None) -> torch.dtype | None:
    """Return the dtype with this name."""
    dtype: torch.dtype | None = getattr(torch, name) if name else None
    return dtype


def move(target: object, device: str | None, dtype: torch.dtype | None) -> None:
    """Call `.to(device, dtype)` on a module, if a device or dtype is given; skip other objects."""
    if not isinstance(target, nn.Module) or (device is None and dtype is None):
        return
    if device == second_device.DEVICE_NAME:
        second_device.move_to_second_device(target, dtype)
    else:
        with complex_buffers_apart(target, device):
            target.to(device, dtype)


@contextlib.contextmanager
def complex_buffers_apart(module: nn.Module, device: torch.device | str | None) -> Iterator[None]:
    """Move complex buffers, such as tables of rotary embeddings, without a cast to real numbers.

    With a real dtype torch would discard their imaginary part.
    """
    kept = [
        (part, name, buffer)
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None and buffer.is_complex()
    ]
    for part, name, _ in kept:
        part._buffers[name] = None
    try:
        yield
    finally:
        for part, name, buffer in kept:
            part._buffers[name] = buffer.to(device or buffer.device)


def send_input(tensor: Tensor, device: str) -> Tensor:
    """Send an input of a call to this device."""
    on_second = device == second_device.DEVICE_NAME
    return second_device.RemoteTensor(tensor) if on_second else tensor.to(device)


def track_call(
    unmoved: UnmovedTracker, device: str, dtype: torch.dtype | None
) -> contextlib.AbstractContextManager[object]:
    """In a call of a moved object, track tensors that did not move to its device or dtype.

    If a GPU would refuse such a tensor, the call raises; all others are recorded in `unmoved`.
    """
    if device == second_device.DEVICE_NAME:
        return second_device.enable_second_device(unmoved)
    return contextlib.nullcontext() if dtype is None else MixedDtypeMode(unmoved, dtype)


def build_another(old: Any, make: Callable[..., Any], way: str) -> Any:
    """Build an object of the same class or a derived one, and load the old object's state."""
    new = make(type("Derived", (type(old),), {})) if way == "subclass" else make()
    parameter = next(old.parameters(), None)
    if parameter is not None:
        with complex_buffers_apart(new, parameter.device):
            new.to(dtype=parameter.dtype, device=parameter.device)
    state = {name: tensor.clone() for name, tensor in old.state_dict().items()}
    new.load_state_dict(state, assign=way == "assigned state_dict")
    return new
