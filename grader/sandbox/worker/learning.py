"""Compute a module's gradients, and take a step of gradient descent."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from grader.sandbox.worker import attribute_paths
from grader.sandbox.worker.calling import (
    compute_gradients,
    extract_tensors,
    make_sendable,
    set_training,
)


def compute_vjp(
    target: Any, paths: Sequence[str], tensors: dict[str, Tensor], device: str
) -> dict[str, Tensor]:
    """Return the gradients of sum(output * cotangent) for the inputs and the tensors at `paths`."""
    cotangent, mask, inputs = _split_call(tensors, device)
    inputs = [tensor.requires_grad_() for tensor in inputs]
    with _evaluation_mode(target), _restore_requires_grad(target, paths):
        leaves = attribute_paths.prepare_leaves(target, paths)
        output = extract_tensors(target(*inputs, *mask))[0]
        gradients = compute_gradients(output, [*inputs, *leaves.values()], cotangent)
    names = [*(f"input {i}" for i in range(len(inputs))), *leaves]
    return {n: make_sendable(g) for n, g in zip(names, gradients, strict=True) if g is not None}


def descend(target: Any, tensors: dict[str, Tensor], device: str, rate: float) -> None:
    """Subtract from each parameter `rate` times its gradient of sum(output * cotangent)."""
    cotangent, mask, inputs = _split_call(tensors, device)
    parameters = list(target.parameters())
    with _evaluation_mode(target):
        extract_tensors(target(*inputs, *mask))[0].backward(cotangent)
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.sub_(rate * parameter.grad)
                parameter.grad = None


def _split_call(
    tensors: dict[str, Tensor], device: str
) -> tuple[Tensor, tuple[Tensor, ...], list[Tensor]]:
    """Return the cotangent, the mask if there is one, and the other inputs, on a device."""
    inputs = {name: tensor.to(device) for name, tensor in tensors.items()}
    cotangent, mask = inputs.pop("cotangent"), inputs.pop("mask", None)
    return cotangent, () if mask is None else (mask,), list(inputs.values())


@contextmanager
def _evaluation_mode(target: object) -> Iterator[None]:
    set_training(target, False)
    with torch.enable_grad():
        yield


@contextmanager
def _restore_requires_grad(target: object, paths: Sequence[str]) -> Iterator[None]:
    """Restore `requires_grad` of the tensors at these paths afterwards."""
    tensors = (attribute_paths.find(target, path) for path in paths)
    plain = [t for t in tensors if t is not None and t.is_leaf and not t.requires_grad]
    try:
        yield
    finally:
        for tensor in plain:
            tensor.requires_grad_(False)
