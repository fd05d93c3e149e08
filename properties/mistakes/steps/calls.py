"""Wrappers of right attention, for mistakes in the side effects of a call.

A wrapper gets the module, the function that computes the right results, and the arguments of a
call. It returns the results of the call. It keeps its state in `module.__dict__`, where torch does
not see the state, so each module has its own.
"""

import itertools
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from headcheck.properties.mistakes.pipeline import CORRECT, PipelineState, QKVTensors, StepOverrides

Result = Tensor | tuple[Tensor, ...]
UNCHANGED: StepOverrides = {}
_MODULES = itertools.count()
MOST_KEPT = 256
"""the most tokens that are kept from call to call"""


class Attend(Protocol):
    """Computes the right results or, with overrides, the results with other steps."""

    def __call__(  # the class says it
        self, x: Tensor, mask: Tensor | None, overrides: StepOverrides = UNCHANGED
    ) -> Result: ...


CallWrapper = Callable[[nn.Module, Attend, Tensor, Tensor | None], Result]


def call_plainly(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Return the right results, and do nothing else."""
    return attend(x, mask)


# -------------------------------------------------------------------------- arguments


def halve_input_first(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return attend(x.mul_(0.5), mask)


def halve_input_unrecorded(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    x.data.mul_(0.5)
    return attend(x, mask)


def halve_input_last(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    result = attend(x.clone(), mask)
    x.mul_(0.5)
    return result


def reshape_input(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    result = attend(x.clone(), mask)
    x.unsqueeze_(0)
    return result


def invert_mask_first(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return attend(x, None if mask is None else mask.copy_(mask == 0))


def open_mask_last(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    result = attend(x, None if mask is None else mask.clone())
    if mask is not None:
        mask.fill_(1)
    return result


def invert_bool_masks(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    inverted = mask is not None and mask.dtype is torch.bool
    return attend(x, ~mask if mask is not None and inverted else mask)


def invert_number_masks(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    return attend(x, mask if mask is None or mask.dtype is torch.bool else mask == 0)


def let_positive_attend(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    return attend(x, None if mask is None else mask > 0)


def let_one_attend(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return attend(x, None if mask is None else mask == 1)


def view_input(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return attend(x.view(-1).view(x.shape), mask)


def read_memory_in_order(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    return attend(x.as_strided(x.shape, torch.empty(x.shape).stride()), mask)


def require_input_gradients(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    return attend(x.requires_grad_(), mask)


def cast_input_to_float32(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    return attend(x.float(), mask)


# --------------------------------------------------------------------------- results


def _map(result: Result, change: Callable[[Tensor], Tensor]) -> Result:
    return change(result) if isinstance(result, Tensor) else tuple(map(change, result))


def return_float32(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return _map(attend(x, mask), Tensor.float)


def squeeze_result(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return _map(attend(x, mask), Tensor.squeeze)


def squeeze_batch(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return _map(attend(x, mask), lambda t: t.squeeze(0))


def squeeze_width(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return _map(attend(x, mask), lambda t: t.squeeze(-1))


def return_nan(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return _map(attend(x, mask), lambda t: t * torch.nan)


def double_when_recorded(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    return _map(attend(x, mask), lambda t: t * 2 if t.requires_grad else t)


def double_in_training(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return _map(attend(x, mask), lambda t: t * 2 if module.training else t)


# ----------------------------------------------------------------------------- state


def _get_kept(module: nn.Module) -> dict[Any, Any]:
    kept: dict[Any, Any] = module.__dict__.setdefault("kept", {})
    return kept


def keep_first_result(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    kept = _get_kept(module)
    key = tuple(x.shape)
    if key not in kept:
        kept[key] = attend(x, mask)
    found: Result = kept[key]
    return found


def keep_answer_of_memory(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    """Return the earlier result for the same place in memory."""
    kept = _get_kept(module)
    key = x.data_ptr(), tuple(x.shape), x.dtype, None if mask is None else mask.data_ptr()
    if key not in kept:
        kept[key] = attend(x, mask)
    found: Result = kept[key]
    return found


def keep_first_input(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Average the input with the first one of that shape."""
    first = _get_kept(module).setdefault(tuple(x.shape), x.detach().clone())
    return attend((x + first) / 2, mask)


def keep_first_keys(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return _keep_first_role(module, attend, x, mask, 1)


def keep_first_values(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    return _keep_first_role(module, attend, x, mask, 2)


def _keep_first_role(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None, number: int
) -> Result:
    def assign(s: PipelineState) -> tuple[Tensor, ...]:
        own = s.split[number]
        kept = _get_kept(module).setdefault((number, tuple(own.shape)), own.detach().clone())
        return tuple(kept if i == number else t for i, t in enumerate(s.split))

    return attend(x, mask, {"assign": assign})


def go_on_from_last_call(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    """Let the tokens continue those of the last call, if the number of sequences is the same."""
    before = _get_kept(module).get("tokens")
    fits = before is not None and before.shape[:-2] == x.shape[:-2]
    return _follow(module, attend, x, mask, before if fits else None)


def go_on_whatever_comes(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    """Let the tokens continue the last call's. May raise RuntimeError for another batch size."""
    return _follow(module, attend, x, mask, _get_kept(module).get("tokens"))


def _follow(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None, before: Tensor | None
) -> Result:
    whole = x if before is None else torch.cat([before, x], dim=-2)
    _get_kept(module)["tokens"] = whole[..., -MOST_KEPT:, :].detach().clone()
    return _map(attend(whole, mask), lambda t: t[..., -x.shape[-2] :, :])


def average_with_last_result(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    return _average(module, attend(x, mask), Tensor.detach)


def average_with_last_result_and_its_graph(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    """Keep the graph of the last result, so that a second backward raises RuntimeError."""
    return _average(module, attend(x, mask), lambda t: t)


def _average(module: nn.Module, result: Result, keep: Callable[[Tensor], Tensor]) -> Result:
    last = _get_kept(module).get("result")
    _get_kept(module)["result"] = _map(result, keep)
    if isinstance(last, Tensor) and isinstance(result, Tensor) and last.shape == result.shape:
        return (last + result) / 2
    return result


def grow_with_every_call(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    kept = _get_kept(module)
    kept["calls"] = kept.get("calls", 0) + 1
    return _map(attend(x, mask), lambda t: t * (1 + 0.1 * (kept["calls"] - 1)))


def halve_parameters(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.5)
    return attend(x, mask)


def tie_heads(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Give all heads the weights of the last head, as if they were the same module."""
    width = module.case.head_dim  # type: ignore[union-attr]  # of a FaultyAttention
    own = [p for name, p in module.named_parameters() if name[-1] in "qkv"]

    def add_up(gradient: Tensor) -> Tensor:
        heads: Tensor = gradient.unflatten(0, (-1, width))
        return heads.sum(0, keepdim=True).expand_as(heads).reshape(gradient.shape)

    if not _get_kept(module).setdefault("tied", False):
        _get_kept(module)["tied"] = True
        for parameter in own:
            parameter.register_hook(add_up)
    with torch.no_grad():
        for parameter in own:
            heads = parameter.unflatten(0, (-1, width))
            heads.copy_(heads[-1:].clone().expand_as(heads))
    return attend(x, mask)


def keep_first_mask(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Use the mask of the first call. May raise RuntimeError for sequences of other lengths."""

    def permit(s: PipelineState) -> Tensor | None:
        kept = _get_kept(module)
        if "mask" not in kept:
            kept["mask"] = CORRECT.permit(s)
        found: Tensor | None = kept["mask"]
        return found

    return attend(x, mask, {"permit": permit})


def add_kept_bias(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Add a random vector that each module draws, like a bias that nobody sets."""
    return _map(attend(x, mask), lambda t: t + _draw_own(module, 1, t)[0])


def apply_kept_layer(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Multiply by a random matrix that each module draws, like an additional layer."""
    return _map(attend(x, mask), lambda t: t @ _draw_own(module, t.shape[-1], t))


def add_kept_bias_to_queries(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    def project(s: PipelineState) -> QKVTensors:
        q, k, v = CORRECT.project(s)
        return q + _draw_own(module, 1, q)[0], k, v

    return attend(x, mask, {"project": project})


def add_kept_bias_to_values(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    def project(s: PipelineState) -> QKVTensors:
        q, k, v = CORRECT.project(s)
        return q, k, v + _draw_own(module, 1, v)[0]

    return attend(x, mask, {"project": project})


def _draw_own(module: nn.Module, rows: int, like: Tensor) -> Tensor:
    """Return random numbers that differ between modules but not between calls of a module."""
    number = _get_kept(module).setdefault("number", next(_MODULES))
    generator = torch.Generator().manual_seed(number)
    return torch.randn(rows, like.shape[-1], generator=generator, dtype=torch.float64).to(like)


def write_over_last_result(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    def reuse(t: Tensor) -> Tensor:
        buffer = _get_kept(module).setdefault((tuple(t.shape), t.dtype), t.detach().clone())
        with torch.no_grad():
            buffer.copy_(t)
        return t if t.requires_grad else buffer

    return _map(attend(x, mask), reuse)


def keep_first_length(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Work on sequences as long as the first one. Raises RuntimeError for others."""
    if _get_kept(module).setdefault("tokens", x.shape[-2]) != x.shape[-2]:
        raise RuntimeError("the sizes differ")
    return attend(x, mask)


def expect_full_context(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    """Work on sequences as long as the context. Raises RuntimeError for others."""
    if module.case.context_length != x.shape[-2]:  # type: ignore[union-attr]  # of a FaultyAttention
        raise RuntimeError("the sizes differ")
    return attend(x, mask)


def expect_first_batch(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Work on batches as large as the first one. Raises RuntimeError for others."""
    if _get_kept(module).setdefault("batch", x.shape[0]) != x.shape[0]:
        raise RuntimeError("the sizes differ")
    return attend(x, mask)


# --------------------------------------------------------------------- random numbers


def set_seed(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    torch.manual_seed(0)
    return attend(x, mask)


def draw_number(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    torch.rand(1)
    return attend(x, mask)


def switch_to_evaluation(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    module.eval()
    return attend(x, mask)
