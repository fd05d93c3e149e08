"""Mistakes around attention: norms of tokens, residuals, and the feed-forward of a block."""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_mistake
from headcheck.properties.mistakes.pipeline import norm_tokens
from headcheck.properties.mistakes.steps import transformer_block as block
from headcheck.properties.mistakes.steps.transformer_block import (
    for_both_or_one,
    with_activation,
    with_norm,
)

_define = partial(define_mistake, needs=Capability.BLOCK)
RESIDUALS: Sequence[Mistake] = (
    _define(
        "first_residual_missing",
        "What attention gives replaces the tokens; it should be added to them.",
    ).simulated_by(add=block.attended_alone),
    _define(
        "second_residual_missing",
        "What the feed-forward gives replaces what it reads; it should be added to what came "
        "before its norm.",
    ).simulated_by(close=block.forwarded_alone),
    _define(
        "both_residuals_missing",
        "Nothing is added to the tokens: what attention gives, and then the feed-forward, "
        "replaces them.",
    ).simulated_by(add=block.attended_alone, close=block.forwarded_alone),
    _define(
        "residual_of_normed_tokens",
        "What attention gives is added to the normed tokens; it should be added to the tokens as "
        "they came in.",
    ).simulated_by(add=block.added_to_normed_tokens),
    _define(
        "residual_of_normed_sums",
        "The output of the feed-forward is added to that of its norm; it should be added to that "
        "norm's input.",
    ).simulated_by(close=block.added_to_normed_sums),
    _define(
        "both_residuals_of_normed",
        "Both residuals begin behind their norms; they should begin before them.",
    ).simulated_by(add=block.added_to_normed_tokens, close=block.added_to_normed_sums),
    _define(
        "second_residual_of_tokens",
        "What the feed-forward gives is added to the tokens that came in: what attention has "
        "added to them is lost.",
    ).simulated_by(close=block.added_to_tokens),
    _define(
        "one_residual_around_both",
        "One residual leads around attention and feed-forward together; each should have its own.",
    ).simulated_by(add=block.attended_alone, close=block.added_to_tokens),
    _define(
        "tokens_added_twice",
        "The tokens are added once more at the end: they are in the first sum already.",
    ).simulated_by(close=block.tokens_added_again),
    _define(
        "attention_left_out", "What attention gives is not used: no token sees another."
    ).simulated_by(add=block.tokens_alone),
    _define("feed_forward_left_out", "What the feed-forward gives is not used.").simulated_by(
        close=block.sums_alone
    ),
    _define(
        "feed_forward_beside_attention",
        "The feed-forward reads the input tokens; it should read the sum of these and "
        "what attention gives.",
    ).simulated_by({"renorm": block.reads_tokens}, {"renorm": block.reads_normed_tokens}),
    _define(
        "feed_forward_of_attention_alone",
        "The feed-forward reads the output of attention, without the tokens that it should have "
        "been "
        "added to.",
    ).simulated_by(renorm=block.reads_attended),
    _define(
        "feed_forward_before_attention",
        "The feed-forward comes first and attention second; it should be the other way round.",
    ).simulated_by(block.forward_first(exchanged=True), block.forward_first(exchanged=False)),
)

NORMS_OF_TOKENS: Sequence[Mistake] = (
    _define(
        "first_norm_left_out",
        "Attention reads the tokens without a norm.",
    ).simulated_by(with_norm(block.left_out, second=False)),
    _define(
        "second_norm_left_out",
        "The feed-forward reads the sums without a norm.",
    ).simulated_by(with_norm(block.left_out, first=False)),
    _define("no_norm_used", "Neither norm is used.").simulated_by(with_norm(block.left_out)),
    _define(
        "norms_after_residuals",
        "Each norm comes after a residual; it should come before attention, and before the "
        "feed-forward, and leave the residual alone.",
    ).simulated_by(block.AFTER_RESIDUALS),
    _define(
        "norms_of_what_is_added",
        "Each norm comes after attention, or after the feed-forward; it should come before.",
    ).simulated_by(block.AFTER_PARTS),
    _define(
        "normed_at_the_end",
        "The output of the block goes through the second norm once more.",
    ).simulated_by(close=block.normed_at_the_end),
    _define(
        "first_norm_twice",
        "The norm before attention is used before the feed-forward as well, which has its own.",
    ).simulated_by(renorm=block.first_norm_again),
    _define(
        "second_norm_twice",
        "The norm before the feed-forward is used before attention as well, which has its own.",
    ).simulated_by(enter=block.second_norm_first),
    _define("norms_exchanged", "The two norms have changed places.").simulated_by(
        enter=block.second_norm_first, renorm=block.first_norm_again
    ),
    _define(
        "some_roles_not_normed",
        "Some of queries, keys and values are made from tokens without the norm.",
    ).simulated_by(
        *({"enter": block.normed_for(*which)} for which in ((0,), (0, 1), (1, 2), (2,), (0, 2)))
    ),
    _define(
        "norm_over_tokens",
        "A norm takes mean and variance over the tokens of a sequence; it should take them over "
        "the numbers of each token.",
        "mean | variance | norm",
    ).simulated_by(*for_both_or_one(block.over(1))),
    _define(
        "norm_over_tokens_and_numbers",
        "A norm takes mean and variance of all tokens together; each token should have its own.",
        "mean | variance | norm",
    ).simulated_by(
        *for_both_or_one(block.over(1, 2)),
        *for_both_or_one(block.over(0, 1, 2)),
        *for_both_or_one(block.over(0)),
        *for_both_or_one(block.over(0, 1)),
    ),
    _define(
        "variance_unbiased",
        "A norm divides the sum of squares by n - 1 instead of n: that is the unbiased "
        "variance, and the biased one is asked for.",
        "variance | mean | norm",
    ).simulated_by(*for_both_or_one(block.with_unbiased_variance)),
    _define("token_norm_without_gain", "A norm does not multiply by its gain.").simulated_by(
        *for_both_or_one(lambda s, t, gain, shift: norm_tokens(s, t, None, shift))
    ),
    _define("token_norm_without_shift", "A norm does not add its shift.").simulated_by(
        *for_both_or_one(lambda s, t, gain, shift: norm_tokens(s, t, gain, None))
    ),
    _define(
        "token_norm_without_gain_and_shift", "A norm applies neither its gain nor its shift."
    ).simulated_by(*for_both_or_one(lambda s, t, gain, shift: norm_tokens(s, t, None, None))),
    _define(
        "another_epsilon",
        "The epsilon that a norm adds to the variance differs from the statement's.",
    ).simulated_by(
        *(
            each
            for epsilon in (1e-6, 1e-8, 1e-12, 0.0, 1e-3, 1e-4, 1e-7, 1e-10, 1e-9, 1e-5)
            for each in for_both_or_one(block.with_epsilon(epsilon))
        )
    ),
    _define(
        "epsilon_outside_the_root",
        "A norm adds epsilon to the standard deviation; it should add it to the variance, under "
        "the root.",
        "variance | mean | norm",
    ).simulated_by(
        *for_both_or_one(block.with_epsilon_outside(0)),
        *for_both_or_one(block.with_epsilon_outside(1)),
    ),
    _define(
        "another_kind_of_norm",
        "A norm is of another kind: it does not subtract the mean although it should, or subtracts "
        "one where it is not.",
    ).simulated_by(
        *for_both_or_one(block.of_kind("rms")), *for_both_or_one(block.of_kind("layer"))
    ),
    _define(
        "mean_not_subtracted",
        "A norm divides by the root of the variance, and does not subtract the mean first.",
    ).simulated_by(*for_both_or_one(block.uncentred)),
    _define(
        "not_divided_by_the_deviation",
        "A norm subtracts the mean, and divides by nothing.",
    ).simulated_by(*for_both_or_one(block.undivided)),
    _define(
        "token_norm_without_root",
        "A norm divides by the variance, or the mean square; it should divide by its root.",
    ).simulated_by(*for_both_or_one(block.without_root)),
)

FEED_FORWARD: Sequence[Mistake] = (
    _define(
        "feed_forward_without_activation",
        "There is nothing between the two layers of the feed-forward; there should be a GELU.",
    ).simulated_by(activate=block.not_activated),
    _define(
        "gelu_approximated",
        "GELU is approximated by a tanh; the statement asks for x Φ(x).",
        "gelu | relu:tanh | relu",
    ).simulated_by(activate=block.by_tanh),
    _define(
        "gelu_not_approximated",
        "GELU is computed as x Φ(x); the statement asks for the approximation by a tanh.",
        "gelu | relu",
    ).simulated_by(activate=block.by_error_function),
    _define(
        "another_activation",
        "The function between the layers of the feed-forward is not GELU.",
        "relu | relu:tanh | gelu",
    ).simulated_by(
        {"activate": with_activation(torch.relu)},
        {"activate": with_activation(F.silu)},
        {"activate": with_activation(lambda t: t * torch.sigmoid(1.702 * t))},
        {"activate": with_activation(torch.tanh)},
        {"activate": with_activation(torch.sigmoid)},
        {"activate": with_activation(lambda t: F.relu(t).square())},
        {"activate": with_activation(F.leaky_relu)},
        {"activate": with_activation(F.elu)},
        {"activate": with_activation(F.softplus)},
        {"activate": with_activation(F.mish)},
        {"activate": with_activation(lambda t: t.softmax(-1))},
    ),
    _define(
        "activation_after_the_feed_forward",
        "GELU comes after the second layer of the feed-forward; it should come between the two.",
    ).simulated_by(
        {"activate": block.not_activated, "narrow": block.activated_last},
        {"narrow": block.activated_last},
    ),
    _define(
        "activation_before_the_feed_forward",
        "GELU comes before the first layer of the feed-forward; it should come between the two.",
    ).simulated_by(
        {"widen": block.activated_first, "activate": block.not_activated},
        {"widen": block.activated_first},
    ),
    _define(
        "feed_forward_bias_missing",
        "A bias of the feed-forward is not added.",
        "last projection | return",
    ).simulated_by(
        {"widen": block.first_layer_without_bias},
        {"narrow": block.second_layer_without_bias},
        {"widen": block.first_layer_without_bias, "narrow": block.second_layer_without_bias},
    ),
)

AROUND_ATTENTION = (*RESIDUALS, *NORMS_OF_TOKENS, *FEED_FORWARD)
