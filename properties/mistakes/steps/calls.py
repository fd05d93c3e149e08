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

from headcheck.properties.mistakes.pipeline import CORRECT, PipelineState, StepOverrides

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


def act_first(act: Callable[[nn.Module], object]) -> CallWrapper:
    """Do something to the module, or something else, before it attends."""

    def wrap(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
        act(module)
        return attend(x, mask)

    return wrap


# -------------------------------------------------------------------------- arguments


def change_input(change: Callable[[Tensor], Tensor]) -> CallWrapper:
    """Attend to what a function returns for the input, which it may also change in place."""
    return lambda module, attend, x, mask: attend(change(x), mask)


def change_input_last(change: Callable[[Tensor], Tensor]) -> CallWrapper:
    """Change the input in place after attending to it."""

    def wrap(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
        result = attend(x.clone(), mask)
        change(x)
        return result

    return wrap


def change_mask(change: Callable[[Tensor], Tensor]) -> CallWrapper:
    """Attend with what a function returns for the mask, which it may also change in place."""
    return lambda module, attend, x, mask: attend(x, None if mask is None else change(mask))


def _halve_unrecorded(x: Tensor) -> Tensor:
    x.data.mul_(0.5)
    return x


def open_mask_last(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    result = attend(x, None if mask is None else mask.clone())
    if mask is not None:
        mask.fill_(1)
    return result


halve_input_first = change_input(lambda x: x.mul_(0.5))
halve_input_unrecorded = change_input(_halve_unrecorded)
halve_input_last = change_input_last(lambda x: x.mul_(0.5))
reshape_input = change_input_last(lambda x: x.unsqueeze_(0))
view_input = change_input(lambda x: x.view(-1).view(x.shape))
read_memory_in_order = change_input(lambda x: x.as_strided(x.shape, torch.empty(x.shape).stride()))
require_input_gradients = change_input(lambda x: x.requires_grad_())
cast_input_to_float32 = change_input(Tensor.float)
invert_mask_first = change_mask(lambda mask: mask.copy_(mask == 0))
invert_bool_masks = change_mask(lambda mask: ~mask if mask.dtype is torch.bool else mask)
invert_number_masks = change_mask(lambda mask: mask if mask.dtype is torch.bool else mask == 0)
let_positive_attend = change_mask(lambda mask: mask > 0)
let_one_attend = change_mask(lambda mask: mask == 1)


# --------------------------------------------------------------------------- results


def _map(result: Result, change: Callable[[Tensor], Tensor]) -> Result:
    return change(result) if isinstance(result, Tensor) else tuple(map(change, result))


def change_results(change: Callable[[nn.Module, Tensor], Tensor]) -> CallWrapper:
    """Return what a function returns for the module and each of the right results."""

    def wrap(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
        return _map(attend(x, mask), lambda t: change(module, t))

    return wrap


return_float32 = change_results(lambda module, t: t.float())
squeeze_result = change_results(lambda module, t: t.squeeze())
squeeze_batch = change_results(lambda module, t: t.squeeze(0))
squeeze_width = change_results(lambda module, t: t.squeeze(-1))
return_nan = change_results(lambda module, t: t * torch.nan)
double_when_recorded = change_results(lambda module, t: t * 2 if t.requires_grad else t)
double_in_training = change_results(lambda module, t: t * 2 if module.training else t)


# ----------------------------------------------------------------------------- state


def _get_kept(module: nn.Module) -> dict[Any, Any]:
    kept: dict[Any, Any] = module.__dict__.setdefault("kept", {})
    return kept


def _keep_result(identify: Callable[[Tensor, Tensor | None], object]) -> CallWrapper:
    """Return the first result for all calls that a function identifies with each other."""

    def wrap(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
        kept, key = _get_kept(module), identify(x, mask)
        if key not in kept:
            kept[key] = attend(x, mask)
        found: Result = kept[key]
        return found

    return wrap


keep_first_result = _keep_result(lambda x, mask: tuple(x.shape))
keep_answer_of_memory = _keep_result(
    lambda x, mask: (
        x.data_ptr(),
        tuple(x.shape),
        x.dtype,
        None if mask is None else mask.data_ptr(),
    )
)
"""returns the earlier result for the same place in memory"""


def keep_first_input(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Average the input with the first one of that shape."""
    first = _get_kept(module).setdefault(tuple(x.shape), x.detach().clone())
    return attend((x + first) / 2, mask)


def _keep_first_role(number: int) -> CallWrapper:
    """Use the keys (1) or the values (2) of the first call of that size."""

    def wrap(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
        def assign(s: PipelineState) -> tuple[Tensor, ...]:
            own = s.split[number]
            kept = _get_kept(module).setdefault((number, tuple(own.shape)), own.detach().clone())
            return tuple(kept if i == number else t for i, t in enumerate(s.split))

        return attend(x, mask, {"assign": assign})

    return wrap


keep_first_keys = _keep_first_role(1)
keep_first_values = _keep_first_role(2)


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


def _average_with_last_result(keep: Callable[[Tensor], Tensor]) -> CallWrapper:
    """Average the output with what a function keeps of the last one of that shape."""

    def wrap(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
        result, last = attend(x, mask), _get_kept(module).get("result")
        _get_kept(module)["result"] = _map(result, keep)
        if isinstance(last, Tensor) and isinstance(result, Tensor) and last.shape == result.shape:
            return (last + result) / 2
        return result

    return wrap


average_with_last_result = _average_with_last_result(Tensor.detach)
average_with_last_result_and_its_graph = _average_with_last_result(lambda t: t)
"""keeps the graph of the last result, so that a second backward raises RuntimeError"""


def grow_with_every_call(
    module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    kept = _get_kept(module)
    kept["calls"] = kept.get("calls", 0) + 1
    return _map(attend(x, mask), lambda t: t * (1 + 0.1 * (kept["calls"] - 1)))


@act_first
@torch.no_grad()
def halve_parameters(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.mul_(0.5)


@act_first
def tie_heads(module: nn.Module) -> None:
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


def keep_first_mask(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
    """Use the mask of the first call. May raise RuntimeError for sequences of other lengths."""

    def permit(s: PipelineState) -> Tensor | None:
        kept = _get_kept(module)
        if "mask" not in kept:
            kept["mask"] = CORRECT.permit(s)
        found: Tensor | None = kept["mask"]
        return found

    return attend(x, mask, {"permit": permit})


def _draw_own(module: nn.Module, rows: int, like: Tensor) -> Tensor:
    """Return random numbers that differ between modules but not between calls of a module."""
    number = _get_kept(module).setdefault("number", next(_MODULES))
    generator = torch.Generator().manual_seed(number)
    return torch.randn(rows, like.shape[-1], generator=generator, dtype=torch.float64).to(like)


def _add_kept_bias_to_role(number: int) -> CallWrapper:
    """Add a random vector that each module draws to the queries (0) or the values (2)."""

    def wrap(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
        def project(s: PipelineState) -> tuple[Tensor, ...]:
            right = CORRECT.project(s)
            bias = _draw_own(module, 1, right[number])[0]
            return tuple(t + bias if i == number else t for i, t in enumerate(right))

        return attend(x, mask, {"project": project})

    return wrap


add_kept_bias = change_results(lambda module, t: t + _draw_own(module, 1, t)[0])
"""adds a random vector that each module draws, like a bias that nobody sets"""
add_kept_bias_to_queries = _add_kept_bias_to_role(0)
add_kept_bias_to_values = _add_kept_bias_to_role(2)
apply_kept_layer = change_results(lambda module, t: t @ _draw_own(module, t.shape[-1], t))
"""multiplies by a random matrix that each module draws, like an additional layer"""


@change_results
def write_over_last_result(module: nn.Module, t: Tensor) -> Tensor:
    buffer: Tensor = _get_kept(module).setdefault((tuple(t.shape), t.dtype), t.detach().clone())
    with torch.no_grad():
        buffer.copy_(t)
    return t if t.requires_grad else buffer


def _demand(fits: Callable[[nn.Module, Tensor], object]) -> CallWrapper:
    """Work on inputs of some sizes. Raises RuntimeError for others."""

    def wrap(module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None) -> Result:
        if not fits(module, x):
            raise RuntimeError("the sizes differ")
        return attend(x, mask)

    return wrap


keep_first_length = _demand(
    lambda module, x: _get_kept(module).setdefault("tokens", x.shape[-2]) == x.shape[-2]
)
expect_full_context = _demand(
    lambda module, x: module.case.context_length == x.shape[-2]  # type: ignore[union-attr]  # of a FaultyAttention
)
expect_first_batch = _demand(
    lambda module, x: _get_kept(module).setdefault("batch", x.shape[0]) == x.shape[0]
)


# ------------------------------------------------------------- random numbers and modes

set_seed = act_first(lambda module: torch.manual_seed(0))
draw_number = act_first(lambda module: torch.rand(1))
switch_to_evaluation = act_first(nn.Module.eval)
