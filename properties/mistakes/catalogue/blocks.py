"""Mistakes in processing keys in blocks, and in the returned log-sum-exp."""

from collections.abc import Callable

from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import PipelineState, StepOverrides
from headcheck.properties.mistakes.steps import blocks

Exponentials = Callable[[PipelineState], Tensor]


def _summed(above: Exponentials, below: Exponentials, maxima: Exponentials) -> StepOverrides:
    """Replace the exponentials in the average, and those in the sum and the log-sum-exp."""
    logsumexp = blocks.logarithm_of(below, maxima)
    return {
        "normalise": blocks.divided(above, below),
        "give": blocks.returning(logsumexp),
    }


BLOCKS = require(
    Capability.BLOCKED,
    define_mistake(
        "earlier_blocks_not_rescaled",
        "When a block has a larger score than all before it, the earlier sums are not corrected.",
    ).simulated_by(
        _summed(
            blocks.from_running_maximum, blocks.from_running_maximum, blocks.last_running_maximum
        )
    ),
    define_mistake(
        "earlier_average_not_rescaled",
        "When the maximum grows, the sum so far is corrected, and the average so far is not.",
    ).simulated_by(
        _summed(blocks.from_running_maximum, blocks.from_final_maximum, blocks.last_running_maximum)
    ),
    define_mistake(
        "earlier_sum_not_rescaled",
        "When the maximum grows, the average so far is corrected, and the sum so far is not.",
    ).simulated_by(
        _summed(blocks.from_final_maximum, blocks.from_running_maximum, blocks.last_running_maximum)
    ),
    define_mistake(
        "rescaled_the_other_way",
        "When the maximum grows, the earlier sums are made larger instead of smaller.",
    ).simulated_by(
        _summed(
            blocks.corrected_the_other_way,
            blocks.corrected_the_other_way,
            blocks.last_running_maximum,
        )
    ),
    define_mistake(
        "blocks_have_their_own_maximum",
        "The exponentials of each block are relative to its own maximum, and are added up as if "
        "these were all the same.",
    ).simulated_by(
        _summed(blocks.from_own_maximum, blocks.from_own_maximum, blocks.last_own_maximum)
    ),
    define_rare_mistake(
        "maximum_begins_at_a_number",
        "The running maximum begins at a number, such as 0, instead of −∞: if all scores are "
        "far below it, all exponentials are 0, and 0/0 is NaN.",
        "only fill:^-?[\\d.]+(e-?\\d+)?$",
    ).simulated_by(
        *(
            _summed(
                blocks.from_maximum_begun_at(number),
                blocks.from_maximum_begun_at(number),
                blocks.maximum_begun_at(number),
            )
            for number in (0.0, -1.0, -10.0, -100.0, -1e3, -1e4)
        )
    ),
    define_mistake(
        "divided_in_every_block",
        "The average so far is divided by the sum in every block, and later added to as if it had "
        "not been; it should be divided once, at the end.",
        "last divide",
    ).simulated_by(normalise=blocks.divided_in_every_block),
    define_mistake(
        "softmax_of_each_block",
        "Each block has a softmax of its own, and these are added: the weights sum to the number "
        "of blocks.",
    ).simulated_by(normalise=blocks.softmax_of_each_block),
    define_mistake(
        "blocks_count_alike",
        "The averages of all blocks count alike, whatever their scores are.",
    ).simulated_by(normalise=blocks.average_of_softmaxes),
    define_mistake(
        "last_short_block_dropped",
        "The last block is left out if it is shorter than the others.",
        "only range",
    ).simulated_by(
        {"hide": blocks.keys_up_to(lambda keys, block: max(block, keys - keys % block))},
        {"hide": blocks.keys_up_to(lambda keys, block: keys - keys % block)},
    ),
    define_rare_mistake(
        "first_block_alone", "Only the first block is attended to.", "only range"
    ).simulated_by(hide=blocks.keys_up_to(lambda keys, block: block)),
    define_rare_mistake(
        "blocks_overlap",
        "Neighbouring blocks share a key, which then counts twice.",
    ).simulated_by(hide=blocks.first_keys_twice),
    define_rare_mistake(
        "blocks_filled_up",
        "The last block is filled up with keys of zeros, whose exponentials are summed up, too.",
    ).simulated_by(
        normalise=blocks.softmax_with_filling,
        give=blocks.returning(blocks.logsumexp_with_filling),
    ),
    define_rare_mistake(
        "scaled_again_in_every_block",
        "The scale is applied again in each block, so that later scores become smaller.",
    ).simulated_by(scale=blocks.scaled_in_every_block),
)

LOGSUMEXP = require(
    Capability.LOGSUMEXP,
    define_mistake(
        "logsumexp_without_the_maximum",
        "The maximum that was subtracted from the scores is missing in the log-sum-exp.",
        "last return",
    ).simulated_by(give=blocks.returning(blocks.logarithm_alone)),
    define_mistake(
        "maximum_instead_of_logsumexp",
        "The largest score is returned as log-sum-exp: the logarithm of the sum is missing.",
        "last return",
    ).simulated_by(give=blocks.returning(blocks.maximum_alone)),
    define_mistake(
        "no_logarithm_of_the_sum",
        "The sum itself is added to the maximum, and not its logarithm.",
        "last return",
    ).simulated_by(give=blocks.returning(blocks.sum_instead_of_logarithm)),
    define_mistake(
        "logsumexp_to_base_two",
        "The log-sum-exp is a logarithm to base 2 instead of base e.",
        "last return",
    ).simulated_by(give=blocks.returning(blocks.to_base_two)),
    define_mistake(
        "logsumexp_of_unscaled_scores",
        "The log-sum-exp is computed from the unscaled scores.",
        "last return",
    ).simulated_by(give=blocks.returning(blocks.of_unscaled_scores)),
    define_rare_mistake(
        "logsumexp_of_the_last_block",
        "The log-sum-exp is computed from the last block only.",
        "last return",
    ).simulated_by(give=blocks.returning(blocks.of_the_last_block)),
)
