"""Call a module as libraries do: with weights from outside, mapped over an axis, or autocast."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

CallWithin = Callable[[Any, list[Tensor], Mapping[str, Tensor]], Any]


def call_with_weights(target: Any, inputs: list[Tensor], weights: Mapping[str, Tensor]) -> Any:
    """Call a module with these weights in place of its own."""
    return torch.func.functional_call(target, dict(weights), tuple(inputs))


def call_mapped(target: Any, inputs: list[Tensor], weights: Mapping[str, Tensor]) -> Any:
    """Call a module for each item of the first axis, with vmap."""
    with warnings.catch_warnings():
        # Some kernels are mapped by a loop: slower, as torch says, and not wrong.
        warnings.filterwarnings("ignore", message="There is a performance drop")
        return torch.func.vmap(lambda *items: target(*items))(*inputs)


def call_in_autocast(target: Any, inputs: list[Tensor], weights: Mapping[str, Tensor]) -> Any:
    """Call a module under autocast to bfloat16."""
    with torch.autocast(inputs[0].device.type, dtype=torch.bfloat16):
        return target(*inputs)


WAYS: Mapping[str, CallWithin] = {
    "functional_call": call_with_weights,
    "vmap": call_mapped,
    "autocast": call_in_autocast,
}
