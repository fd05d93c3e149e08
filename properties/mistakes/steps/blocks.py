"""Faulty steps of attention that processes keys in blocks, with running maxima and sums.

The exponentials of a block's scores s are summed relative to the largest score m so far, and
earlier sums are multiplied by exp(m_before - m). Each step here forgets a part of this.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    PipelineState,
    filled_with_minus_infinity,
    select_result,
)

Step = Callable[[PipelineState], Tensor]


def _count_in_block(s: PipelineState) -> int:
    return s.inputs.block or s.masked_scores.shape[-1]


def _number_blocks(s: PipelineState, scores: Tensor) -> Tensor:
    """Return the number of each key's block."""
    return torch.arange(scores.shape[-1]) // (s.inputs.block or scores.shape[-1])


def _split_blocks(s: PipelineState) -> tuple[Tensor, ...]:
    return torch.split(s.masked_scores, _count_in_block(s), dim=-1)


def _find_block_maxima(s: PipelineState) -> Tensor:
    """Return the largest score of each block: batch heads queries blocks."""
    return torch.stack([block.amax(-1) for block in _split_blocks(s)], dim=-1)


def _find_running_maxima(s: PipelineState) -> Tensor:
    """Return the largest score up to and including each block."""
    return _find_block_maxima(s).cummax(-1).values


def _shift(s: PipelineState, maxima: Tensor) -> Tensor:
    """Return each score minus the maximum of its block."""
    return s.masked_scores - maxima[..., _number_blocks(s, s.masked_scores)]


# ------------------------------------------------------------------------------- exponentials


def from_final_maximum(s: PipelineState) -> Tensor:
    """Return the right exponentials, relative to the final maximum."""
    return (s.masked_scores - s.masked_scores.amax(-1, keepdim=True)).exp()


def from_running_maximum(s: PipelineState) -> Tensor:
    """Return exponentials that are not corrected when the running maximum grows."""
    return _shift(s, _find_running_maxima(s)).exp()


def from_own_maximum(s: PipelineState) -> Tensor:
    """Return exponentials relative to each block's own maximum, without correction."""
    return _shift(s, _find_block_maxima(s)).exp()


def from_maximum_begun_at(number: float) -> Step:
    """Return exponentials relative to the largest score, or to this number if it is larger."""
    return lambda s: (s.masked_scores - maximum_begun_at(number)(s)).exp()


def maximum_begun_at(number: float) -> Step:
    return lambda s: s.masked_scores.amax(-1, keepdim=True).clamp(min=number)


def corrected_the_other_way(s: PipelineState) -> Tensor:
    """Multiply earlier sums by the factor by which they should be divided."""
    running = _find_running_maxima(s)
    return _shift(s, 2 * running - running[..., -1:]).exp()


# --------------------------------------------------------------------------- normalise, give


def divided(above: Step, below: Step) -> Step:
    """Divide exponentials by the sum of the same or of other exponentials."""
    return lambda s: above(s) / below(s).sum(-1, keepdim=True)


def divided_in_every_block(s: PipelineState) -> Tensor:
    """Divide a block's contribution by the running sum, in its own block and in each later one."""
    parts = _split_blocks(s)
    so_far = torch.stack([part.logsumexp(-1) for part in parts], dim=-1).logcumsumexp(-1)
    sums = (so_far - _find_running_maxima(s)).exp()
    divisors = sums.flip(-1).cumprod(-1).flip(-1)
    return from_final_maximum(s) / divisors[..., _number_blocks(s, s.masked_scores)]


def softmax_of_each_block(s: PipelineState) -> Tensor:
    return torch.cat([block.softmax(-1) for block in _split_blocks(s)], dim=-1)


def average_of_softmaxes(s: PipelineState) -> Tensor:
    return softmax_of_each_block(s) / _find_block_maxima(s).shape[-1]


def returning(logsumexp: Step) -> Callable[[PipelineState], tuple[Tensor, ...]]:
    """Return another log-sum-exp if the contract asks for one."""

    def give(s: PipelineState) -> tuple[Tensor, ...]:
        wanted = s.inputs.wanted
        return tuple(logsumexp(s) if n == "logsumexp" else select_result(s, n) for n in wanted)

    return give


def logarithm_of(exponentials: Step, maxima: Step) -> Step:
    """Return the last maximum plus the logarithm of a sum."""
    return lambda s: maxima(s)[..., -1] + exponentials(s).sum(-1).log()


def last_running_maximum(s: PipelineState) -> Tensor:
    return _find_running_maxima(s)[..., -1:]


def last_own_maximum(s: PipelineState) -> Tensor:
    return _find_block_maxima(s)[..., -1:]


def maximum_alone(s: PipelineState) -> Tensor:
    return s.masked_scores.amax(-1)


def logarithm_alone(s: PipelineState) -> Tensor:
    return from_final_maximum(s).sum(-1).log()


def sum_instead_of_logarithm(s: PipelineState) -> Tensor:
    return maximum_alone(s) + from_final_maximum(s).sum(-1)


def to_base_two(s: PipelineState) -> Tensor:
    return s.masked_scores.logsumexp(-1) / math.log(2)


def of_unscaled_scores(s: PipelineState) -> Tensor:
    return s.raw_scores.logsumexp(-1)


def of_the_last_block(s: PipelineState) -> Tensor:
    *_, last = _split_blocks(s)
    return last.logsumexp(-1)


def filled_up(s: PipelineState) -> Tensor:
    """Return the exponentials of the scores, and of the extra keys that fill up the last block."""
    missing = -s.masked_scores.shape[-1] % _count_in_block(s)
    filling = s.masked_scores.new_zeros(*s.masked_scores.shape[:-1], missing)
    whole = torch.cat([s.masked_scores, filling], dim=-1)
    return (whole - whole.amax(-1, keepdim=True)).exp()


def softmax_with_filling(s: PipelineState) -> Tensor:
    exponentials = filled_up(s)
    return (exponentials / exponentials.sum(-1, keepdim=True))[..., : s.masked_scores.shape[-1]]


def logsumexp_with_filling(s: PipelineState) -> Tensor:
    missing = -s.masked_scores.shape[-1] % _count_in_block(s)
    filling = s.masked_scores.new_zeros(*s.masked_scores.shape[:-1], missing)
    return torch.cat([s.masked_scores, filling], dim=-1).logsumexp(-1)


# ------------------------------------------------------------------------------- scale, hide


def scaled_in_every_block(s: PipelineState) -> Tensor:
    """Apply the scale once more in each block."""
    times = _number_blocks(s, s.raw_scores) + 1
    return s.raw_scores * torch.pow(s.inputs.scale, times.to(s.raw_scores.dtype))


def keys_up_to(count: Callable[[int, int], int]) -> Step:
    """Hide all but the first keys; `count` gets the number of keys and the size of a block."""

    def hide(s: PipelineState) -> Tensor:
        keys = s.scores.shape[-1]
        seen = torch.arange(keys) < count(keys, s.inputs.block or keys)
        return filled_with_minus_infinity(s).masked_fill(~seen, -math.inf)

    return hide


def first_keys_twice(s: PipelineState) -> Tensor:
    """Count the first key of each block, except the first block, also in the block before it."""
    places = torch.arange(s.scores.shape[-1])
    twice = (places > 0) & (places % (s.inputs.block or len(places)) == 0)
    return filled_with_minus_infinity(s) + twice.to(s.scores.dtype) * math.log(2)
