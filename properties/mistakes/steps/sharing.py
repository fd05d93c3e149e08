"""Faulty steps that give keys and values to the heads that share them."""

from collections.abc import Callable

from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState, QKVTensors, merge_heads
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


def groups_merged_in_turn(s: PipelineState) -> Tensor:
    """Lay the first heads of all groups side by side, then the second ones, and so on."""
    grouped = s.head_contexts.unflatten(1, (s.inputs.kv_heads, -1))
    return merge_heads(grouped.transpose(1, 2).flatten(1, 2))
