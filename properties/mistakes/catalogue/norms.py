"""Mistakes in the norms of queries and keys."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    exclude,
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
    ).simulated_by(norm=norms.left_out),
    define_mistake(
        "only_queries_normed", "Only the queries go through a norm; the keys should, too.", PATTERN
    ).simulated_by(norm=normed_by(right_norm, key=False)),
    define_mistake(
        "only_keys_normed", "Only the keys go through a norm; the queries should, too.", PATTERN
    ).simulated_by(norm=normed_by(right_norm, query=False)),
    define_mistake(
        "values_normed_too", "The values go through a norm, too; only queries and keys should.",
        PATTERN,
    ).simulated_by(norm=normed_by(right_norm, value=True)),
    define_mistake(
        "norm_without_gain", "What is divided by its size is not multiplied by the learned gain.",
        PATTERN,
    ).simulated_by(norm=normed_by(norms.without_gain)),
    define_mistake(
        "norm_without_root",
        "The norms divide by the mean square; they should divide by the root of it.",
        PATTERN,
    ).simulated_by(norm=normed_by(norms.without_root)),
    define_mistake(
        "norm_of_another_mean",
        "The mean is subtracted where the size is computed, and not from what is divided by it.",
        PATTERN,
    ).simulated_by(norm=normed_by(norms.by_another_mean)),
    define_mistake(
        "norm_after_positions",
        "Queries and keys are rotated before they go through their norms, not after.",
        "last norm | last mean",
        needs=Capability.POSITIONS,
    ).simulated_by(norms.AFTER_POSITIONS),
)  # fmt: skip
