"""Mistakes in the average, in the steps after it, and in the returned results."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    Mistake,
    define_mistake,
    define_rare_mistake,
    exclude,
)
from headcheck.properties.mistakes.pipeline import merge_heads, output_layer, values_alone
from headcheck.properties.mistakes.steps import output, scores

TRIVIAL: Sequence[Mistake] = (
    define_rare_mistake(
        "input_returned", "The input comes back as it is.", "last return"
    ).simulated_by(
        {"close": output.input_itself},
        {"close": output.input_itself, "use": scores.identity_weights},
        {"close": lambda s: F.pad(s.inputs.x, (0, s.inputs.d_out - s.inputs.d_in))},
    ),
    define_rare_mistake(
        "values_returned",
        "The values are returned directly: no token attends to another.",
        "last reshape:^[vV]",
        unless=Capability.BLOCK,
    ).simulated_by(
        {"finish": output.values_projected},
        {"mix": values_alone},
        {"use": scores.identity_weights},
        {"finish": output.values_projected, "use": scores.identity_weights},
    ),
    define_rare_mistake(
        "zeros_returned", "Nothing but zeros comes back.", "last return"
    ).simulated_by(
        use=lambda s: torch.zeros_like(s.weights), close=output.result_followed_by(torch.zeros_like)
    ),
)

OUTPUT: Sequence[Mistake] = (
    define_mistake(
        "output_projection_missing", "The output projection is not applied."
    ).simulated_by(finish=output.context_itself),
    define_mistake(
        "output_projection_twice",
        "The output projection is applied twice.",
        "last projection:(?i)out|proj|W_?o",
    ).simulated_by(finish=output.output_layer_twice),
    define_mistake(
        "output_projection_not_transposed",
        "The output projection is used as it is stored; x Wᵀ takes its transpose.",
        "last projection:(?i)out|proj|W_?o",
    ).simulated_by(finish=output.output_weight_as_stored),
    define_mistake(
        "output_bias_missing",
        "The bias of the output projection is not added.",
    ).simulated_by(finish=output.output_bias_times(0.0)),
    define_mistake(
        "weights_transposed",
        "The weights are transposed where they meet the values: output i uses column i, not row i.",
    ).simulated_by(mix=lambda s: s.applied_weights.mT @ s.value),
    define_rare_mistake(
        "own_value_only",
        "Each token's value is multiplied only by this token's own weights: nothing is averaged.",
    ).simulated_by(
        {"mix": lambda s: s.applied_weights.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) * s.value},
        {"mix": lambda s: s.applied_weights.sum(dim=-1, keepdim=True) * s.value},
    ),
    define_mistake(
        "residual_added",
        "The input is added to the output, which belongs to the block around attention.",
        unless=Capability.BLOCK,
    ).simulated_by(
        {"finish": lambda s: output_layer(s) + s.inputs.x},
        {"finish": output.with_input_where_it_fits},
    ),
    define_rare_mistake(
        "output_normalised",
        "The output goes through a layer norm, which belongs to the block around attention.",
        unless=Capability.BLOCK,
    ).simulated_by(finish=output.output_followed_by(output.layer_norm)),
    define_rare_mistake(
        "activation_on_output",
        "An activation function follows the average of the values; attention has none there.",
    ).simulated_by(
        {"finish": output.output_followed_by(torch.tanh)},
        {"finish": output.output_followed_by(torch.relu)},
        {"merge": lambda s: merge_heads(s.head_contexts).relu()},
    ),
    define_rare_mistake(
        "averaged_over_tokens", "The output is averaged over the tokens."
    ).simulated_by(
        {"close": output.result_followed_by(lambda t: t.mean(1, keepdim=True).expand_as(t))},
        {"close": output.result_followed_by(lambda t: t.mean(1))},
    ),
    define_rare_mistake(
        "heads_not_merged",
        "The output still has a dimension of heads.",
        unless=Capability.BLOCK,
    ).simulated_by(
        {"finish": output.unmerged_last},
        {"merge": lambda s: s.head_contexts.transpose(1, 2), "finish": output.context_itself},
    ),
    define_mistake(
        "weights_returned",
        "The attention weights are returned instead of the output.",
    ).simulated_by(
        {"give": output.returned_results("weights")}, {"give": output.returned_results("matrix")}
    ),
)

_RETURNED: Sequence[Mistake] = (
    define_mistake(
        "scores_returned", "The scores are returned where the weights are asked for."
    ).simulated_by(
        {"give": output.returned_weights(lambda s: s.masked_scores)},
        {"give": output.returned_weights(lambda s: s.scores)},
    ),
    define_mistake(
        "unmasked_weights_returned",
        "The returned weights are those without the mask.",
    ).simulated_by(give=output.returned_weights(lambda s: torch.softmax(s.scores, dim=-1))),
    define_rare_mistake(
        "averaged_weights_returned",
        "The returned weights are averaged over the heads.",
        "mean | return",
    ).simulated_by(
        {"give": output.returned_weights(lambda s: s.applied_weights.mean(1))},
        {"give": output.returned_weights(lambda s: s.applied_weights.mean(1, keepdim=True))},
        {
            "give": output.returned_weights(
                lambda s: s.applied_weights.mean(1, keepdim=True).expand_as(s.applied_weights)
            )
        },
    ),
)

RETURNED = exclude(Capability.LOGSUMEXP, *_RETURNED)
"""mistakes in results that should be the output, perhaps with the weights"""
