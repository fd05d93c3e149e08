"""Misconceptions about the average, what follows it, and what is returned."""

from collections.abc import Sequence

import torch

from properties.mistakes.catalogue.mistake import Misconception, fault
from properties.mistakes.steps import output, scores

NOTHING: Sequence[Misconception] = (
    fault(
        "input_returned",
        "The input comes back as it is.",
        "last return",
        rare=True,
    )(
        {"finish": output.input_itself},
        {"finish": output.input_itself, "use": scores.each_to_itself},
        {"finish": output.cut_or_padded},
    ),
    fault(
        "values_returned",
        "The values come back as they are: no token attends to another.",
        "last return",
        rare=True,
    )(
        {"finish": output.values_projected},
        {"use": scores.each_to_itself},
        {"finish": output.values_projected, "use": scores.each_to_itself},
    ),
    fault(
        "zeros_returned",
        "Zeros come back: nothing has been computed.",
        "last return",
        rare=True,
    )(use=scores.zeros, finish=output.finished_by(torch.zeros_like)),
)

OUTPUT: Sequence[Misconception] = (
    fault(
        "output_projection_missing",
        "The output projection is not applied.",
        "last return",
    )(finish=output.context_itself),
    fault(
        "output_projection_twice",
        "The output projection is applied twice.",
        "last projection:(?i)out|proj|W_?o | last return",
    )(finish=output.twice),
    fault(
        "output_projection_not_transposed",
        "The output projection is used as it is stored; x Wᵀ takes its transpose.",
        "last projection:(?i)out|proj|W_?o | last return",
    )(finish=output.output_weight_as_stored),
    fault(
        "output_bias_missing",
        "The bias of the output projection is not added.",
        "last projection:(?i)out|proj|W_?o | last return",
    )(finish=output.output_bias_times(0.0)),
    fault(
        "output_bias_twice",
        "The bias of the output projection is added twice.",
        "last projection:(?i)out|proj|W_?o | last return",
        rare=True,
    )(finish=output.output_bias_times(2.0)),
    fault(
        "weights_transposed",
        "The values meet the transposed weights: each key collects queries.",
        "last mix",
    )(mix=output.by_transposed_weights),
    fault(
        "divided_by_tokens",
        "The average of the values is divided by the number of tokens once more.",
        "mix | scale",
        rare=True,
    )(mix=output.divided_by_tokens),
    fault(
        "own_value_only",
        "Each token's value meets only that token's own weights: nothing is averaged.",
        "last mix",
        rare=True,
    )({"mix": output.own_value_by_own_weight}, {"mix": output.own_value_by_all_weights}),
    fault(
        "residual_added",
        "The input is added to the output, which belongs to the block around attention.",
        "last return",
    )({"finish": output.with_input}, {"finish": output.with_input_where_it_fits}),
    fault(
        "output_normalised",
        "The output goes through a layer norm, which belongs to the block around attention.",
        "norm | return",
        rare=True,
    )(finish=output.finished_by(output.layer_norm)),
    fault(
        "softmax_on_output",
        "A softmax goes over the output.",
        "softmax | return",
        rare=True,
    )(finish=output.finished_by(lambda t: torch.softmax(t, dim=-1))),
    fault(
        "activation_on_output",
        "An activation function follows the average of the values; attention has none there.",
        "relu | return",
        rare=True,
    )(
        {"finish": output.finished_by(torch.tanh)},
        {"finish": output.finished_by(torch.relu)},
        {"merge": output.relu_of_context},
    ),
    fault(
        "averaged_over_tokens",
        "The output is averaged over the tokens.",
        "mean | return",
        rare=True,
    )(
        {"finish": output.finished_by(lambda t: t.mean(1, keepdim=True).expand_as(t))},
        {"finish": output.finished_by(lambda t: t.mean(1))},
    ),
    fault(
        "output_transposed",
        "The output has its columns before its tokens: (batch, columns, tokens).",
        "last return",
        rare=True,
    )(finish=output.finished_by(lambda t: t.mT)),
    fault(
        "heads_not_merged",
        "The output still has a dimension of heads.",
        "last return",
        rare=True,
    )(
        {"finish": output.unmerged_last},
        {"merge": output.unmerged, "finish": output.context_itself},
    ),
    fault(
        "weights_returned",
        "The attention weights are returned instead of the output.",
        "last return",
    )({"give": output.returned("weights")}, {"give": output.returned("matrix")}),
    fault(
        "weights_returned_too",
        "Output and attention weights are returned; only the output is asked for.",
        "last return",
        rare=True,
    )(
        {"give": output.weights_too("weights")},
        {"give": output.weights_too("matrix")},
    ),
    fault(
        "weights_not_returned",
        "Only the output is returned; the attention weights are asked for, too.",
        "last return",
        rare=True,
    )(give=output.returned("output")),
    fault(
        "weights_returned_first",
        "The weights are returned first and the output second; it is to be the other way round.",
        "last return",
        rare=True,
    )(give=output.returned("weights", "output")),
    fault(
        "scores_returned",
        "The scores are returned where the weights are asked for.",
        "last return",
    )(
        {"give": output.given_weights(lambda s: s.masked)},
        {"give": output.given_weights(lambda s: s.scores)},
    ),
    fault(
        "unmasked_weights_returned",
        "The returned weights are those without the mask.",
        "return | softmax",
    )(give=output.given_weights(output.before_any_mask)),
    fault(
        "averaged_weights_returned",
        "The returned weights are averaged over the heads.",
        "mean | return",
        rare=True,
    )(
        {"give": output.given_weights(lambda s: s.used.mean(1))},
        {"give": output.given_weights(lambda s: s.used.mean(1, keepdim=True))},
        {"give": output.given_weights(lambda s: s.used.mean(1, keepdim=True).expand_as(s.used))},
    ),
    fault(
        "transposed_weights_returned",
        "The returned weights have keys as rows and queries as columns.",
        "transpose | return",
        rare=True,
    )(give=output.given_weights(lambda s: s.used.mT)),
    fault(
        "returned_weights_heads_last",
        "The returned weights have the heads in their last dimension.",
        "transpose | return",
        rare=True,
    )(give=output.given_weights(lambda s: s.used.permute(0, 2, 3, 1))),
    fault(
        "weights_of_one_head_returned",
        "The returned weights are those of one head.",
        "index:-1 | last return",
        rare=True,
    )(
        {"give": output.given_weights(lambda s: s.used[:, -1:].expand_as(s.used))},
        {"give": output.given_weights(lambda s: s.used[:, :1].expand_as(s.used))},
        {"give": output.given_weights(lambda s: s.used[:, 0])},
        {"give": output.given_weights(lambda s: s.used[:, -1])},
    ),
)
