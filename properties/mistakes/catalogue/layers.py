"""Mistakes about queries, keys and values, and about comparing them."""

from collections.abc import Sequence

import torch.nn.functional as F

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue import norms
from headcheck.properties.mistakes.catalogue.mistake import (
    Mistake,
    define_mistake,
    define_rare_mistake,
)
from headcheck.properties.mistakes.pipeline import map_qkv
from headcheck.properties.mistakes.steps import layers, scores

LAYERS: Sequence[Mistake] = (
    define_mistake(
        "queries_and_keys_exchanged", "Queries and keys have changed places{order}."
    ).simulated_by(assign=layers.roles(1, 0, 2)),
    define_mistake(
        "keys_and_values_exchanged",
        "Keys and values have changed places: the queries are compared with the values{order}.",
    ).simulated_by(assign=layers.roles(0, 2, 1)),
    define_mistake(
        "queries_and_values_exchanged", "Queries and values have changed places{order}."
    ).simulated_by(assign=layers.roles(2, 1, 0)),
    define_mistake(
        "projections_in_another_order",
        "Queries, keys and values have all three changed places{order}.",
    ).simulated_by({"assign": layers.roles(1, 2, 0)}, {"assign": layers.roles(2, 0, 1)}),
    define_mistake(
        "queries_with_queries",
        "The queries are compared with themselves: the keys are not used in the scores.",
    ).simulated_by(assign=layers.roles(0, 0, 2)),
    define_mistake(
        "keys_with_keys",
        "The keys are compared with themselves: the queries are not used in the scores.",
    ).simulated_by(assign=layers.roles(1, 1, 2)),
    define_mistake("keys_averaged", "The keys are averaged instead of the values.").simulated_by(
        assign=layers.roles(0, 1, 1)
    ),
    define_rare_mistake(
        "queries_averaged", "The queries are averaged instead of the values."
    ).simulated_by(assign=layers.roles(0, 1, 0)),
    define_mistake(
        "values_as_keys",
        "The queries are compared with the values: the keys are not used in the scores.",
    ).simulated_by(assign=layers.roles(0, 2, 2)),
    define_rare_mistake(
        "one_projection_for_all", "Queries, keys and values come from one layer."
    ).simulated_by(*({"assign": layers.roles(i, i, i)} for i in range(3))),
    define_mistake(
        "values_not_projected",
        "The tokens themselves are averaged instead of their values.",
        r"last mix:\b(x|inputs?|tokens|hidden|embeddings?)\b",
    ).simulated_by({"project": layers.raw_values}, {"project": layers.raw_values_where_they_fit}),
    define_mistake(
        "weights_not_transposed",
        "A weight matrix is used as it is stored; x Wᵀ takes its transpose.",
        "projection | scores",
    ).simulated_by(
        {"project": layers.weights_as_stored}, {"project": layers.head_weights_as_stored}
    ),
    define_rare_mistake(
        "weights_reshaped",
        "The weight matrices are reshaped instead of transposed, which scrambles them.",
        "reshape",
    ).simulated_by(project=layers.weights_reshaped),
    define_mistake(
        "bias_missing",
        "A bias that is asked for is not added.",
    ).simulated_by(
        {"project": layers.biases_times(0.0, 0.0, 0.0)},
        {"project": layers.biases_times(1.0, 0.0, 0.0)},
        {"project": layers.biases_times(1.0, 1.0, 0.0)},
        {"project": layers.biases_times(0.0, 0.0, 1.0)},
    ),
    define_rare_mistake("bias_subtracted", "The biases are subtracted.", "projection").simulated_by(
        project=layers.biases_times(-1.0, -1.0, -1.0)
    ),
    define_rare_mistake(
        "relu_on_projections", "A ReLU cuts off the negative numbers of queries or keys."
    ).simulated_by(
        *({"project": layers.relu_on(*which)} for which in ((0,), (0, 1), (0, 1, 2), (2,)))
    ),
    define_rare_mistake(
        "input_normalised",
        "The input goes through a layer norm first, which belongs to the block around attention.",
        unless=Capability.BLOCK,
    ).simulated_by(
        see=lambda s: map_qkv(lambda t: F.layer_norm(t, t.shape[-1:]), s.inputs.sources)
    ),
    define_rare_mistake(
        "input_centred",
        "The mean of all tokens is subtracted from the input first, so all tokens see all others.",
    ).simulated_by(
        see=lambda s: map_qkv(lambda t: t - t.mean(dim=1, keepdim=True), s.inputs.sources)
    ),
    define_rare_mistake(
        "scores_absolute", "The softmax sees the absolute values of the scores."
    ).simulated_by({"match": scores.absolute}, {"normalise": scores.softmax_of_absolute}),
    define_rare_mistake(
        "cosine_scores",
        "Queries and keys are scaled to length one, so the scores are cosines.",
    ).simulated_by({"match": scores.cosines}, {"match": scores.cosines, "scale": scores.unscaled}),
    define_rare_mistake(
        "queries_and_keys_normalised",
        "Queries and keys go through a norm before they are compared, which is not asked for.",
        needs=Capability.UNNORMED,
    ).simulated_by(
        {"match": scores.normalised},
        {"match": scores.normalised_by_mean_square},
        *norms.list_unasked("query", "key"),
    ),
    define_rare_mistake(
        "one_role_normalised",
        "Queries, keys or values go through a norm, which the statement does not ask for.",
        needs=Capability.UNNORMED,
    ).simulated_by(
        *(
            way
            for role in ("query", "key", "value")
            for way in (*norms.list_unasked(role), *norms.list_unasked_lengths(role))
        )
    ),
    define_mistake(
        "keys_viewed_not_transposed",
        "The keys are viewed in the shape of their transpose, which scrambles them.",
        "reshape:\\bk(eys?)?\\.",
    ).simulated_by(
        match=lambda s: s.query @ s.key.reshape(*s.key.shape[:-2], s.key.shape[-1], s.key.shape[-2])
    ),
)
