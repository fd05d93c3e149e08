"""Call a submission's objects, and describe the results."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.worker.moving import complex_buffers_apart
from headcheck.grader.sandbox.worker.second_device import get_cpu_tensor

SHORT_LIVED = 3
"""how many tensors are used and then freed, so that their memory is reused"""
SPOILT = 7
"""the number with which results are overwritten"""
MAX_OUTPUTS = 64
"""the most tensors accepted from one call; no exercise asks for more than two"""


class Refused(Exception):
    """The submission does not provide what was requested; the message is for its author."""


get_signature = functools.lru_cache(maxsize=16)(inspect.signature)


def call_by_name_or_position(maker: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call with named arguments if the names match, else in the order of the exercise's statement.

    That order is used only if no argument would reach a parameter with another argument's name.
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
    """Whether each argument has a position, and that of any parameter with its name."""
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        return True
    pairs = list(zip(parameters, arguments, strict=False))
    return len(pairs) == len(arguments) and all(
        parameter == name or name not in parameters for parameter, name in pairs
    )


def set_training(target: object, training: bool | None) -> None:
    """Call train() or eval() on a module that is in another mode; None leaves its mode unchanged.

    A class may clear what it keeps when its mode is set, and a program sets it once for many calls.
    """
    if training is None or not isinstance(target, nn.Module):
        return
    if any(part.training is not training for part in target.modules()):
        target.train() if training else target.eval()


def list_breaches(target: nn.Module, inputs: list[Tensor]) -> list[str]:
    """Describe how a module breaks the rules that every nn.Module must follow."""
    device = next((parameter.device for parameter in target.parameters()), "cpu")
    methods: dict[str, Callable[[], object]] = {
        "train": target.train,
        "eval": target.eval,
        "to": lambda: target.to(device),
        "requires_grad_": target.requires_grad_,
    }
    silent = (name for name, method in methods.items() if method() is not target)
    breaches = [f"{name}() returns something else than the module" for name in silent]
    try:
        repr(target)
    except Exception as error:
        breaches.append(f"repr() raises {type(error).__name__}")
    if not hasattr(target.load_state_dict(target.state_dict()), "missing_keys"):
        breaches.append("load_state_dict() does not return the missing keys")
    if not _calls_hooks(target, inputs):
        breaches.append("a forward hook is not called")
    if accepted := _find_dispensable(target):
        breaches.append(f"load_state_dict() accepts a state without {accepted!r}")
    return breaches


def _calls_hooks(target: nn.Module, inputs: list[Tensor]) -> bool:
    called: list[str] = []
    hooks = (
        target.register_forward_pre_hook(lambda *_: called.append("before")),
        target.register_forward_hook(lambda *_: called.append("after")),
    )
    with torch.no_grad():
        target(*inputs)
    for hook in hooks:
        hook.remove()
    return called == ["before", "after"]


def _find_dispensable(target: nn.Module) -> str | None:
    """Return the first parameter that may be missing from a loaded state without an error."""
    first = next((name for name, _ in nn.Module.named_parameters(target)), None)
    if first is None:
        return None
    incomplete = {n: t.clone() for n, t in target.state_dict().items() if n != first}
    try:
        target.load_state_dict(incomplete)
    except Exception:
        return None
    return first


def _move_there_and_back(target: nn.Module, there: torch.dtype, back: torch.dtype) -> None:
    with complex_buffers_apart(target, None):
        target.to(there).to(back)


def list_replaced(target: nn.Module) -> list[str]:
    """Return the names of the methods that replace a module's parameters with other objects."""
    before = [id(parameter) for parameter in nn.Module.parameters(target)]
    dtype = next((parameter.dtype for parameter in nn.Module.parameters(target)), torch.float32)
    other = torch.float32 if dtype == torch.float64 else torch.float64
    methods: dict[str, Callable[[], object]] = {
        "load_state_dict": lambda: target.load_state_dict(target.state_dict()),
        "to": lambda: _move_there_and_back(target, other, dtype),
        "train": lambda: target.train().eval(),
    }
    replaced = []
    for name, method in methods.items():
        method()
        if [id(parameter) for parameter in nn.Module.parameters(target)] != before:
            replaced.append(name)
            before = [id(parameter) for parameter in nn.Module.parameters(target)]
    return replaced


def call_twice(target: Any, first: list[Tensor], second: list[Tensor], reuse: str) -> list[Tensor]:
    """Call with the first tensors, then with the second; return the second outputs.

    The second values are in the same tensors ("kept"), in memory that the first ones had before
    they were freed ("freed"), or in tensors whose storage the first ones filled in part ("grown").
    """
    set_training(target, False)
    match reuse:
        case "kept":
            target(*first)
            _fill(first, second)
            return extract_tensors(target(*first))
        case "grown":
            whole = [tensor.clone() for tensor in second]
            narrow = _leave_out_last_token(whole)
            _fill(narrow, _leave_out_last_token(first))
            target(*narrow)
            _fill(whole, second)
            return extract_tensors(target(*whole))
        case _:
            for _ in range(SHORT_LIVED):
                target(*(tensor.clone() for tensor in first))
            return extract_tensors(target(*(tensor.clone() for tensor in second)))


def _fill(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Write values into tensors, unnoticed by their version counters, as NumPy would."""
    for tensor, value in zip(tensors, values, strict=True):
        tensor.data.copy_(value)


def _leave_out_last_token(inputs: list[Tensor]) -> list[Tensor]:
    """Return views of the inputs, tokens and perhaps a mask, without the last token."""
    tokens, *masks = inputs
    # A mask that is the same for all queries has an axis of length 1 for them.
    fewer = (mask[..., : max(1, mask.shape[-2] - 1), :-1] for mask in masks)
    return [tokens[..., :-1, :], *fewer]


def call_with_overwritten_results(
    target: Any, inputs: list[Tensor]
) -> tuple[list[Tensor], list[str]]:
    """Call an object, overwrite the results, and call it again.

    Returns the second results, and the names of the inputs or other results that changed when a
    result was overwritten. If torch refuses to overwrite a result while gradients are recorded,
    "refused" is among them.
    """
    copies = [tensor.clone() for tensor in inputs]
    set_training(target, False)
    with torch.no_grad():
        changed = _write_over_each(extract_tensors(target(*inputs)))
        changed += [
            f"input {number}"
            for number, (now, before) in enumerate(zip(inputs, copies, strict=True))
            if not torch.equal(now, before)
        ]
        # What comes next writes, too, perhaps into the same memory.
        again = [result.clone() for result in extract_tensors(target(*copies))]
    return again, [*changed, *["refused"] * _refuses_writing(target, copies)]


def _refuses_writing(target: Any, inputs: list[Tensor]) -> bool:
    """Whether a result, like some views, cannot be written into while gradients are recorded."""
    with torch.enable_grad():
        given = [t.clone().requires_grad_(t.is_floating_point()) for t in inputs]
        try:
            for result in extract_tensors(target(*given)):
                result.mul_(2)
        except RuntimeError as error:
            return "modified inplace" in str(error) or "single memory location" in str(error)
    return False


def _write_over_each(results: list[Tensor]) -> list[str]:
    """Overwrite each result in turn, and return which other results changed with it."""
    changed = []
    for number, result in enumerate(results):
        others = {n: (t, t.clone()) for n, t in enumerate(results) if n != number}
        # One that is expanded, say, cannot be written to.
        with contextlib.suppress(RuntimeError):
            result.fill_(SPOILT)
        changed += [f"result {n}" for n, pair in others.items() if has_changed(*pair)]
    return changed


def apply_memory_layouts(inputs: list[Tensor], memory: str) -> list[Tensor]:
    """Return the same inputs, the first in another memory layout, and a mask if transposed."""
    first, *others = inputs
    if memory == "transposed":
        others = [apply_memory_layout(other, memory) for other in others]
    return [apply_memory_layout(first, memory), *others]


def apply_memory_layout(x: Tensor, memory: str) -> Tensor:
    """Return the same values in another memory layout."""
    if memory == "transposed" and x.dim() > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if memory == "expanded" and x.dim() > 2:
        return x[:1].expand_as(x)
    if memory == "sliced" and x.dim():
        width = x.shape[-1]
        return torch.cat([x + 1, x, x - 1], dim=-1)[..., width : 2 * width]
    if memory == "misaligned":
        return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
    return x


def extract_tensors(result: object) -> list[Tensor]:
    """Return a result's tensors in order; none if it holds anything else, or too many of them."""
    if isinstance(result, Tensor):
        return [result]
    if not isinstance(result, tuple | list) or len(result) > MAX_OUTPUTS:
        return []
    return list(result) if all(isinstance(part, Tensor) for part in result) else []


def describe_dtypes_and_devices(
    outputs: list[Tensor],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the tensors' dtypes and of their devices."""
    dtypes = tuple(str(t.dtype).removeprefix("torch.") for t in outputs)
    return dtypes, tuple(str(t.device) for t in outputs)


def describe_result(result: object) -> str:
    """Describe the form of a result in words."""
    if isinstance(result, tuple | list):
        parts = ", ".join(type(part).__name__ for part in result[:6])
        return f"a {type(result).__name__} of {len(result)} ({parts})"
    return "None (is there a return?)" if result is None else f"one {type(result).__name__}"


def make_sendable(tensor: Tensor) -> Tensor:
    """Return a plain tensor on the CPU with the same values; zeros if it has none (meta)."""
    plain = get_cpu_tensor(tensor).detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.as_subclass(Tensor)
    return plain.resolve_conj().resolve_neg().cpu()


def snapshot_state(tensor: Tensor) -> dict[str, object]:
    """Return the properties of a tensor, except its values, that no reader of it changes."""
    meta = tensor.device.type == "meta"
    return {
        "shape": tuple(tensor.shape),
        "memory": None if meta else (tensor.data_ptr(), tensor.stride()),
        "requires_grad": tensor.requires_grad,
    }


def list_alterations(before: list[dict[str, object]], tensors: list[Tensor]) -> list[str]:
    """Return the names of the properties that changed on any of the tensors."""
    pairs = [(was, snapshot_state(tensor)) for was, tensor in zip(before, tensors, strict=True)]
    return sorted({name for was, now in pairs for name in was if was[name] != now[name]})


def has_changed(result: Tensor, copied: Tensor) -> bool:
    """Whether the values of a result that was returned earlier have changed."""
    if torch.equal(result, copied):  # usual, and five times as fast
        return False
    with torch.no_grad():
        same = (result == copied) | (result.isnan() & copied.isnan())
        return result.shape != copied.shape or not bool(same.all())
