"""What learning does to a module: gradients are computed, weights move down them or are loaded."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from grader.sandbox.worker import attribute_paths
from grader.sandbox.worker.calling import (
    compute_gradients,
    extract_tensors,
    iter_leaves_without_gradient,
    make_sendable,
    set_training,
)


def compute_vjp(
    target: Any, wanted: Sequence[str], tensors: dict[str, Tensor], device: str
) -> dict[str, Tensor]:
    """The gradients of sum(output * cotangent), of the inputs and of what is at these paths."""
    cotangent, mask, inputs = _split_call(tensors, device)
    inputs = [tensor.requires_grad_() for tensor in inputs]
    with _evaluation_mode(target), _restore_requires_grad(target, wanted):
        leaves = attribute_paths.prepare_leaves(target, wanted)
        output = extract_tensors(target(*inputs, *mask))[0]
        found = compute_gradients(output, [*inputs, *leaves.values()], cotangent)
    names = [*(f"input {i}" for i in range(len(inputs))), *leaves]
    return {n: make_sendable(g) for n, g in zip(names, found, strict=True) if g is not None}


def descend(target: Any, tensors: dict[str, Tensor], device: str, rate: float) -> None:
    """Move every parameter by `rate` times its gradient of sum(output * cotangent), downhill."""
    cotangent, mask, inputs = _split_call(tensors, device)
    parameters = list(target.parameters())
    with _evaluation_mode(target):
        extract_tensors(target(*inputs, *mask))[0].backward(cotangent)
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.sub_(rate * parameter.grad)
                parameter.grad = None


def load_weights(target: Any, entries: Mapping[str, Tensor]) -> None:
    """`load_state_dict` with the module's own state, but for these entries."""
    target.load_state_dict({**target.state_dict(), **entries})


def _split_call(
    tensors: dict[str, Tensor], device: str
) -> tuple[Tensor, tuple[Tensor, ...], list[Tensor]]:
    """The cotangent, the mask if there is one, and the other inputs, on a device."""
    there = {name: tensor.to(device) for name, tensor in tensors.items()}
    cotangent, mask = there.pop("cotangent"), there.pop("mask", None)
    return cotangent, () if mask is None else (mask,), list(there.values())


@contextmanager
def _evaluation_mode(target: object) -> Iterator[None]:
    set_training(target, False)
    with torch.enable_grad():
        yield


@contextmanager
def _restore_requires_grad(target: object, wanted: Sequence[str]) -> Iterator[None]:
    """Whether tensors ask for gradients is the module's own affair: it is as it was, afterwards."""
    plain = list(iter_leaves_without_gradient(target, list(wanted)))
    try:
        yield
    finally:
        for tensor in plain:
            tensor.requires_grad_(False)
