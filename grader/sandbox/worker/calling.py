"""How a host calls a submission, and what it makes of what comes back."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from grader.sandbox.worker import attribute_paths
from grader.sandbox.worker.second_device import get_cpu_tensor

MAX_OUTPUTS = 64
"""so many tensors are taken from one call: no exercise asks for more than two"""

get_signature = functools.lru_cache(maxsize=16)(inspect.signature)


def call_by_name_or_position(maker: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call with named arguments where the names fit, else in the order of the statement.

    In that order only if it gives no argument to a parameter that has the name of another one.
    """
    try:
        parameters = get_signature(maker).parameters
    except (TypeError, ValueError):
        return maker(**arguments)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    unknown = not open_ended and not set(arguments) <= set(parameters)
    if unknown and _positions_agree(parameters, list(arguments)):
        return maker(*arguments.values())
    nameless = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_ONLY and n in arguments]
    rest = {name: value for name, value in arguments.items() if name not in nameless}
    return maker(*(arguments[name] for name in nameless), **rest)


def _positions_agree(parameters: Mapping[str, inspect.Parameter], arguments: list[str]) -> bool:
    """Whether there is a place for every argument, for those with a known name their own."""
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        return True
    places = list(parameters)[: len(arguments)]
    pairs = zip(places, arguments, strict=False)
    return len(places) == len(arguments) and all(
        place == name or name not in parameters for place, name in pairs
    )


def set_training(target: object, training: bool | None) -> None:
    """Call train() or eval(), as its user would before every call; None leaves it in its mode."""
    if training is not None and isinstance(target, nn.Module):
        target.train() if training else target.eval()


def call_with_refilled_inputs(target: Any, tensors: list[Tensor]) -> list[Tensor]:
    """What comes back for the second half of these, written into the first half after a call."""
    half = len(tensors) // 2
    inputs = tensors[:half]
    set_training(target, False)
    with torch.no_grad():
        target(*inputs)
        for tensor, numbers in zip(inputs, tensors[half:], strict=True):
            tensor.copy_(numbers)
        return extract_tensors(target(*inputs))


def apply_memory_layout(x: Tensor, memory: str) -> Tensor:
    """The same numbers, differently placed in memory."""
    if memory == "transposed" and x.dim() > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if memory == "expanded" and x.dim() > 2:
        return x[:1].expand_as(x)
    return x


def compute_gradients(
    output: Tensor, wanted: list[Tensor], cotangent: Tensor
) -> tuple[Tensor | None, ...]:
    """Vector-Jacobian products; None where no gradient arrives."""
    if not output.requires_grad:
        return (None,) * len(wanted)
    return torch.autograd.grad(output, wanted, cotangent, allow_unused=True)


def iter_leaves_without_gradient(target: object, at: list[str]) -> Iterator[Tensor]:
    """Tensors at these paths that do not ask for gradients by themselves."""
    for path in at:
        tensor = attribute_paths.find(target, path)
        if tensor is not None and tensor.is_leaf and not tensor.requires_grad:
            yield tensor


def extract_tensors(result: object) -> list[Tensor]:
    """The tensors that a call returned, in order; none unless all of it is tensors, and few."""
    if isinstance(result, Tensor):
        return [result]
    if not isinstance(result, tuple | list) or len(result) > MAX_OUTPUTS:
        return []
    return list(result) if all(isinstance(part, Tensor) for part in result) else []


def describe_dtypes_and_devices(outputs: list[Tensor]) -> dict[str, Any]:
    """The dtypes and devices of tensors, in words."""
    return {
        "dtypes": [str(t.dtype).removeprefix("torch.") for t in outputs],
        "devices": [str(t.device) for t in outputs],
    }


def describe_result(result: object) -> str:
    """What came back, in words."""
    if isinstance(result, tuple | list):
        parts = ", ".join(type(part).__name__ for part in result[:6])
        return f"a {type(result).__name__} of {len(result)} ({parts})"
    return "None (is there a return?)" if result is None else f"one {type(result).__name__}"


def make_sendable(tensor: Tensor) -> Tensor:
    """A plain tensor on the CPU with the same numbers; zeros for one that has none (meta)."""
    plain = get_cpu_tensor(tensor).detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.as_subclass(Tensor)
    return plain.resolve_conj().resolve_neg().cpu()


def snapshot_state(tensor: Tensor) -> dict[str, object]:
    """What a tensor is besides its numbers: whoever only reads it changes none of this."""
    meta = tensor.device.type == "meta"
    return {
        "shape": tuple(tensor.shape),
        "memory": None if meta else (tensor.data_ptr(), tensor.stride()),
        "requires_grad": tensor.requires_grad,
    }


def list_alterations(before: list[dict[str, object]], tensors: list[Tensor]) -> list[str]:
    """What of this is not as it was, for any of the tensors."""
    pairs = [(was, snapshot_state(tensor)) for was, tensor in zip(before, tensors, strict=True)]
    return sorted({name for was, now in pairs for name in was if was[name] != now[name]})


def has_changed(result: Tensor, copied: Tensor) -> bool:
    """Whether a result handed out earlier has other numbers now."""
    with torch.no_grad():
        same = (result == copied) | (result.isnan() & copied.isnan())
        return result.shape != copied.shape or not bool(same.all())
