"""Mistakes about keys and values that several heads share."""

from collections.abc import Callable

from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import PipelineState, QKVTensors
from headcheck.reference.variant import share_heads

Share = Callable[[Tensor, int], Tensor]
"""returns the keys or values that each of n heads uses"""


def in_turn(t: Tensor, heads: int) -> Tensor:
    """Give head h the keys with number h modulo the number of key heads, as `repeat` does."""
    return t.repeat(1, heads // t.shape[1], 1, 1)


def one_for_all(number: int) -> Share:
    return lambda t, heads: t[:, number, None].expand(-1, heads, -1, -1)


def mean_for_all(t: Tensor, heads: int) -> Tensor:
    return t.mean(dim=1, keepdim=True).expand(-1, heads, -1, -1)


def shared(
    key: Share = share_heads, value: Share = share_heads
) -> Callable[[PipelineState], QKVTensors]:
    """Share keys and values by these functions, if there are fewer key heads than query heads."""

    def share(s: PipelineState) -> QKVTensors:
        q, k, v = s.placed
        heads = q.shape[1]
        return s.placed if k.shape[1] == heads else (q, key(k, heads), value(v, heads))

    return share


def always_shared(
    key: Share = share_heads, value: Share = share_heads
) -> Callable[[PipelineState], QKVTensors]:
    """Share keys and values by these functions, even if every head has keys of its own."""

    def share(s: PipelineState) -> QKVTensors:
        q, k, v = s.placed
        return q, key(k, q.shape[1]), value(v, q.shape[1])

    return share


def queries_averaged(s: PipelineState) -> QKVTensors:
    """Give all heads of a group the mean of their queries."""
    q, k, v = s.placed
    grouped = q.unflatten(1, (k.shape[1], -1))
    averaged = grouped.mean(dim=2, keepdim=True).expand_as(grouped).flatten(1, 2)
    heads = q.shape[1]
    return averaged, share_heads(k, heads), share_heads(v, heads)


SHARING = require(
    Capability.GROUPED,
    define_mistake(
        "keys_and_values_in_turn",
        "Heads take the heads of keys and values in turn, head 0 the first, head 1 the next one; "
        "neighbouring heads should share them.",
        "repeat:\\.(repeat|tile)\\(",
    ).simulated_by(share=shared(in_turn, in_turn)),
    define_mistake(
        "keys_in_turn",
        "Heads take the heads of keys in turn, but neighbours share those of values: "
        "neighbours share both.",
        "repeat:\\.(repeat|tile)\\(",
    ).simulated_by(share=shared(key=in_turn)),
    define_mistake(
        "values_in_turn",
        "Heads take the heads of values in turn, but neighbours share those of keys: "
        "neighbours share both.",
        "repeat:\\.(repeat|tile)\\(",
    ).simulated_by(share=shared(value=in_turn)),
    define_mistake(
        "one_key_head_for_all",
        "All heads use the keys and the values of the same head.",
    ).simulated_by(
        {"share": shared(one_for_all(0), one_for_all(0))},
        {"share": shared(one_for_all(-1), one_for_all(-1))},
        {"share": always_shared(one_for_all(0), one_for_all(0))},
        {"share": always_shared(one_for_all(-1), one_for_all(-1))},
    ),
    define_mistake(
        "keys_and_values_averaged_over_heads",
        "Keys and values are averaged over their heads, so that all heads use the same.",
    ).simulated_by(
        {"share": shared(mean_for_all, mean_for_all)},
        {"share": always_shared(mean_for_all, mean_for_all)},
    ),
    define_rare_mistake(
        "queries_averaged_in_groups",
        "The queries of a group are averaged, so that its heads give the same: only keys and "
        "values are shared.",
    ).simulated_by(share=queries_averaged),
)
