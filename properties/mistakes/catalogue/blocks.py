"""Mistakes in processing keys in blocks, and in the returned log-sum-exp."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import (
    PipelineState,
    StepOverrides,
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


def maximum_alone(s: PipelineState) -> Tensor:
    return s.masked_scores.amax(-1)


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


Exponentials = Callable[[PipelineState], Tensor]


def _summed(above: Exponentials, below: Exponentials, maxima: Exponentials) -> StepOverrides:
    """Replace the exponentials in the average, and those in the sum and the log-sum-exp."""
    logsumexp = logarithm_of(below, maxima)
    return {
        "normalise": divided(above, below),
        "give": returning(logsumexp),
    }


AVERAGE, SUM = "@|matmul|einsum|bmm", r"\bsum\("
"""patterns for what a loop adds to a running average, and to a running sum"""

BLOCKS = require(
    Capability.BLOCKED,
    define_mistake(
        "earlier_blocks_not_rescaled",
        "When a block has a larger score than all before it, the earlier sums are not corrected.",
        f"running:{AVERAGE} | running:{SUM}",
    ).simulated_by(_summed(from_running_maximum, from_running_maximum, last_running_maximum)),
    define_mistake(
        "earlier_average_not_rescaled",
        "When the maximum grows, the sum so far is corrected, and the average so far is not.",
        f"only running:{AVERAGE}",
    ).simulated_by(_summed(from_running_maximum, from_final_maximum, last_running_maximum)),
    define_mistake(
        "earlier_sum_not_rescaled",
        "When the maximum grows, the average so far is corrected, and the sum so far is not.",
        f"only running:{SUM}",
    ).simulated_by(_summed(from_final_maximum, from_running_maximum, last_running_maximum)),
    define_mistake(
        "rescaled_the_other_way",
        "When the maximum grows, the earlier sums are made larger instead of smaller.",
    ).simulated_by(
        _summed(
            corrected_the_other_way,
            corrected_the_other_way,
            last_running_maximum,
        )
    ),
    define_mistake(
        "blocks_have_their_own_maximum",
        "The exponentials of each block are relative to its own maximum, and are added up as if "
        "these were all the same.",
    ).simulated_by(
        _summed(from_own_maximum, from_own_maximum, lambda s: _find_block_maxima(s)[..., -1:])
    ),
    define_rare_mistake(
        "maximum_begins_at_a_number",
        "The running maximum begins at a number, such as 0, instead of −∞: if all scores are "
        "far below it, all exponentials are 0, and 0/0 is NaN.",
        "only fill:^-?[\\d.]+(e-?\\d+)?$",
    ).simulated_by(
        *(
            _summed(
                from_maximum_begun_at(number),
                from_maximum_begun_at(number),
                maximum_begun_at(number),
            )
            for number in (0.0, -1.0, -10.0, -100.0, -1e3, -1e4)
        )
    ),
    define_mistake(
        "divided_in_every_block",
        "The average so far is divided by the sum in every block, and later added to as if it had "
        "not been; it should be divided once, at the end.",
        "last divide",
    ).simulated_by(normalise=divided_in_every_block),
    define_mistake(
        "softmax_of_each_block",
        "Each block has a softmax of its own, and these are added: the weights sum to the number "
        "of blocks.",
    ).simulated_by(normalise=softmax_of_each_block),
    define_mistake(
        "blocks_count_alike",
        "The averages of all blocks count alike, whatever their scores are.",
    ).simulated_by(normalise=lambda s: softmax_of_each_block(s) / _find_block_maxima(s).shape[-1]),
    define_mistake(
        "last_short_block_dropped",
        "The last block is left out if it is shorter than the others.",
        "only range",
    ).simulated_by(
        {"hide": keys_up_to(lambda keys, block: max(block, keys - keys % block))},
        {"hide": keys_up_to(lambda keys, block: keys - keys % block)},
    ),
    define_rare_mistake(
        "first_block_alone", "Only the first block is attended to.", "only range"
    ).simulated_by(hide=keys_up_to(lambda keys, block: block)),
    define_rare_mistake(
        "blocks_overlap",
        "Neighbouring blocks share a key, which then counts twice.",
    ).simulated_by(hide=first_keys_twice),
    define_rare_mistake(
        "blocks_filled_up",
        "The last block is filled up with keys of zeros, whose exponentials are summed up, too.",
    ).simulated_by(
        normalise=softmax_with_filling,
        give=returning(logsumexp_with_filling),
    ),
    define_rare_mistake(
        "scaled_again_in_every_block",
        "The scale is applied again in each block, so that later scores become smaller.",
    ).simulated_by(scale=scaled_in_every_block),
)

LOGSUMEXP = require(
    Capability.LOGSUMEXP,
    define_mistake(
        "logsumexp_without_the_maximum",
        "The maximum that was subtracted from the scores is missing in the log-sum-exp.",
        "last return",
    ).simulated_by(give=returning(lambda s: from_final_maximum(s).sum(-1).log())),
    define_mistake(
        "maximum_instead_of_logsumexp",
        "The largest score is returned as log-sum-exp: the logarithm of the sum is missing.",
        "last return",
    ).simulated_by(give=returning(maximum_alone)),
    define_mistake(
        "no_logarithm_of_the_sum",
        "The sum itself is added to the maximum, and not its logarithm.",
        "last return",
    ).simulated_by(give=returning(lambda s: maximum_alone(s) + from_final_maximum(s).sum(-1))),
    define_mistake(
        "logsumexp_to_base_two",
        "The log-sum-exp is a logarithm to base 2 instead of base e.",
        "last return",
    ).simulated_by(give=returning(lambda s: s.masked_scores.logsumexp(-1) / math.log(2))),
    define_mistake(
        "logsumexp_of_unscaled_scores",
        "The log-sum-exp is computed from the unscaled scores.",
    ).simulated_by(give=returning(lambda s: s.raw_scores.logsumexp(-1))),
    define_rare_mistake(
        "logsumexp_of_the_last_block",
        "The log-sum-exp is computed from the last block only.",
        "last return",
    ).simulated_by(give=returning(of_the_last_block)),
)
