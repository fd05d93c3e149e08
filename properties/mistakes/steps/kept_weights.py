"""Wrappers of right attention that keep old weights and use them after a change.

A module may keep results of its weights from the first call, from the first evaluation after
training, or while no gradients are recorded. Then every check that sets other weights after a call
fails.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from headcheck.properties.mistakes.steps.calls import Attend, CallWrapper, Result

IsUsed = Callable[[nn.Module], bool]


def _is_unrecorded(module: nn.Module) -> bool:
    return not torch.is_grad_enabled()


def _is_evaluating(module: nn.Module) -> bool:
    return not module.training


def _use_kept(
    names: frozenset[str],
    is_used: IsUsed,
    renews: bool,
    module: nn.Module,
    attend: Attend,
    x: Tensor,
    mask: Tensor | None,
) -> Result:
    """Attend with the weights of these names as they were when they were first used.

    If `renews` is true, the kept weights are forgotten in every other kind of call.
    """
    kept: dict[str, Tensor] = module.__dict__.setdefault("kept_weights", {})
    if not is_used(module):
        if renews:
            kept.clear()
        return attend(x, mask)
    own = {name: p for name, p in module.named_parameters() if name in names}
    for name, parameter in own.items():
        kept.setdefault(name, parameter.detach().clone())
    return _attend_with(own, kept, attend, x, mask)


def _attend_with(
    own: Mapping[str, nn.Parameter],
    numbers: Mapping[str, Tensor],
    attend: Attend,
    x: Tensor,
    mask: Tensor | None,
) -> Result:
    before = {name: parameter.data for name, parameter in own.items()}
    try:
        for name, parameter in own.items():
            parameter.data = numbers[name].to(parameter)
        return attend(x, mask)
    finally:
        for name, parameter in own.items():
            parameter.data = before[name]


ALL = frozenset({"W_q", "W_k", "W_v", "W_o"})
ROLES = (ALL, frozenset({"W_v"}), frozenset({"W_q"}), frozenset({"W_k"}), frozenset({"W_o"}))
TIMES = ((_is_unrecorded, False), (_is_evaluating, True))
KEPT_WEIGHTS: tuple[CallWrapper, ...] = tuple(
    partial(_use_kept, names, is_used, renews) for names in ROLES for is_used, renews in TIMES
)
"""ways to keep weights, in order of how much they break"""
