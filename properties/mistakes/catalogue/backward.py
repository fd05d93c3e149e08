"""Mistakes in a handwritten backward of attention whose forward is right."""

import torch

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import define_rare_mistake, require
from headcheck.properties.mistakes.steps import backward
from headcheck.properties.mistakes.steps.backward import with_backward

BACKWARD = require(
    Capability.RECOMPUTED,
    define_rare_mistake(
        "no_mean_in_backward",
        "In the backward no mean is subtracted: dS is P ∘ dP, and not P ∘ (dP − D) with "
        "D = rowsum(dO ∘ O).",
    ).simulated_by(with_backward(mean=backward.no_mean)),
    define_rare_mistake(
        "mean_of_each_tile",
        "In the backward the mean D is taken over each tile, and not over all keys of a query.",
    ).simulated_by(with_backward(mean=backward.mean_of_each_tile)),
    define_rare_mistake(
        "mean_without_weights",
        "In the backward D is the sum of dP, and not its mean by the weights, rowsum(P ∘ dP).",
    ).simulated_by(with_backward(mean=backward.sum_over_keys)),
    define_rare_mistake(
        "mean_added_in_backward",
        "In the backward the mean D is added to dP instead of subtracted from it.",
    ).simulated_by(with_backward(slope=backward.mean_added)),
    define_rare_mistake(
        "no_weights_in_backward",
        "In the backward dS lacks the factor P: it is dP − D.",
    ).simulated_by(with_backward(slope=backward.without_weights)),
    define_rare_mistake(
        "no_scale_in_backward",
        "The gradients of query and key are not multiplied by the scale.",
    ).simulated_by(with_backward(finish=backward.times_scale(0, 0))),
    define_rare_mistake(
        "no_scale_in_query_gradient",
        "The gradient of the queries is not multiplied by the scale.",
    ).simulated_by(with_backward(finish=backward.times_scale(0, 1))),
    define_rare_mistake(
        "no_scale_in_key_gradient",
        "The gradient of the keys is not multiplied by the scale.",
    ).simulated_by(with_backward(finish=backward.times_scale(1, 0))),
    define_rare_mistake(
        "scaled_twice_in_backward",
        "The gradients of query and key are multiplied by the scale twice.",
    ).simulated_by(
        with_backward(finish=backward.times_scale(2, 2)),
        with_backward(finish=backward.times_scale(2, 1)),
        with_backward(finish=backward.times_scale(1, 2)),
    ),
    define_rare_mistake(
        "key_and_value_gradients_exchanged",
        "The gradients of key and value are exchanged in the return value.",
    ).simulated_by(with_backward(finish=backward.key_and_value_exchanged)),
    define_rare_mistake(
        "query_and_key_gradients_exchanged",
        "The gradients of query and key are exchanged in the return value.",
    ).simulated_by(with_backward(finish=backward.query_and_key_exchanged)),
    define_rare_mistake(
        "gradient_of_the_output_ignored",
        "The backward uses ones as the gradient of the output, and ignores the gradient that it "
        "gets.",
    ).simulated_by(with_backward(begin=torch.ones_like)),
    define_rare_mistake(
        "value_gradient_by_untransposed_weights",
        "The gradient of the values is P dO, and not Pᵀ dO: the weights are not transposed.",
    ).simulated_by(with_backward(finish=backward.values_by_rows)),
    define_rare_mistake(
        "key_gradient_by_untransposed_scores",
        "The gradient of the keys is dS Q, and not dSᵀ Q: dS is not transposed.",
    ).simulated_by(with_backward(finish=backward.keys_by_rows)),
    define_rare_mistake(
        "mask_missing_in_backward",
        "In the backward nothing is hidden: later tokens get weights, too.",
        needs=Capability.CAUSAL_OPTION,
    ).simulated_by(with_backward(weights=backward.without_mask)),
    define_rare_mistake(
        "mask_at_the_top_left_in_backward",
        "In the backward the causal mask begins at the first key, unlike in the forward.",
        needs=Capability.CAUSAL_OPTION,
    ).simulated_by(with_backward(weights=backward.masked_at_the_top_left)),
    define_rare_mistake(
        "short_block_dropped_in_backward",
        "The backward leaves out the last block if it is shorter than the others.",
    ).simulated_by(
        *(
            with_backward(weights=backward.without_short_blocks(*axes))
            for axes in ((-1,), (-2,), (-1, -2))
        )
    ),
    define_rare_mistake(
        "tiles_overwrite_query_gradients",
        "The gradient of a query comes only from its last tile: tiles are not added up.",
    ).simulated_by(
        with_backward(finish=backward.queries_of_last_tile(backward.is_last_of_all)),
        with_backward(finish=backward.queries_of_last_tile(backward.is_last_seen)),
    ),
    define_rare_mistake(
        "tiles_overwrite_key_gradients",
        "The gradients of a key and its value come only from their last tile: tiles are not "
        "added up.",
    ).simulated_by(with_backward(finish=backward.keys_of_last_tile)),
    define_rare_mistake(
        "saved_logsumexp_without_the_maximum",
        "The log-sum-exp that the backward subtracts lacks the maximum of the scores.",
    ).simulated_by(with_backward(weights=backward.times_exponential_of_maximum)),
    define_rare_mistake(
        "saved_maximum_for_the_logsumexp",
        "The backward subtracts the maximum of the scores and not their log-sum-exp: its weights "
        "do not sum to one.",
    ).simulated_by(with_backward(weights=backward.times_sum)),
    define_rare_mistake(
        "unscaled_scores_in_backward",
        "The backward recomputes the scores without the scale.",
    ).simulated_by(with_backward(weights=backward.of_unscaled_scores)),
    define_rare_mistake(
        "softmax_of_each_tile_in_backward",
        "The backward takes a softmax of each tile, and not the exponentials of scores less the "
        "log-sum-exp.",
        "last softmax",
    ).simulated_by(with_backward(weights=backward.softmax_of_tile)),
)
