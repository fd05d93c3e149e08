"""Mistakes in the norms of queries and keys."""

from headcheck.properties.contracts.contract import Capability, NormOver
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    exclude,
    require,
)
from headcheck.properties.mistakes.steps import norms
from headcheck.properties.mistakes.steps.norms import normed_by, right_norm

PATTERN = "norm | mean | last times"
NORMS = exclude(
    Capability.UNNORMED,
    define_mistake(
        "norms_left_out",
        "Queries and keys are compared as they are: their norms are not used.",
        "return",
    ).simulated_by(norms.LEFT_OUT),
    define_mistake(
        "only_queries_normed", "Only the queries go through a norm; the keys should, too.", PATTERN
    ).simulated_by(normed_by(right_norm, key=False)),
    define_mistake(
        "only_keys_normed", "Only the keys go through a norm; the queries should, too.", PATTERN
    ).simulated_by(normed_by(right_norm, query=False)),
    define_mistake(
        "values_normed_too", "The values go through a norm, too; only queries and keys should.",
        PATTERN,
    ).simulated_by(normed_by(right_norm, value=True)),
    define_mistake(
        "norm_without_gain", "What is divided by its size is not multiplied by the learned gain.",
        PATTERN,
    ).simulated_by(normed_by(norms.without_gain)),
    define_mistake(
        "norm_without_root",
        "The norms divide by the mean square; they should divide by the root of it.",
        PATTERN,
    ).simulated_by(normed_by(norms.without_root)),
    define_mistake(
        "norm_of_another_mean",
        "The mean is subtracted where the size is computed, and not from what is divided by it.",
        PATTERN,
    ).simulated_by(normed_by(norms.by_another_mean)),
    define_mistake(
        "query_norm_over_tokens",
        "The norms average over the tokens; they should average over the numbers of each token.",
        PATTERN,
    ).simulated_by(normed_by(norms.over_tokens)),
    define_mistake(
        "queries_norm_for_keys",
        "The keys go through the norm of the queries, which has another gain; they have their own.",
        "last norm | last times",
    ).simulated_by(norms.KEYS_AS_QUERIES),
    *require(
        Capability.HEADS,
    define_mistake(
        "norm_of_each_head",
        "The norms average over each head alone; they should average over the numbers of all "
        "heads.",
        PATTERN,
        needs=NormOver.PROJECTION,
    ).simulated_by(norms.EACH_HEAD),
    define_mistake(
        "norm_of_all_heads",
        "The norms average over the numbers of all heads; they should average over each head "
        "alone.",
        PATTERN,
        needs=NormOver.HEAD,
    ).simulated_by(norm=norms.norms_of_all_heads),
    ),
    define_mistake(
        "norm_after_positions",
        "Queries and keys are rotated before they go through their norms, not after.",
        "last norm | last mean",
        needs=Capability.POSITIONS,
    ).simulated_by(*norms.AFTER_POSITIONS),
)  # fmt: skip
