"""All exercises in teaching order, each in a folder of its own; see `exercises.exercise`."""

from importlib import import_module

from exercises.exercise import Exercise

SERIES = (
    "linear_layer",
    "simplified_attention",
    "scaled_dot_product",
    "self_attention_v1",
    "self_attention_v2",
    "weight_transfer",
    "causal_weights",
    "causal_attention",
    "multi_head_wrapper",
    "two_dimensional_output",
    "multi_head_attention",
    "gpt2_size",
    "causal_self_attention",
    "looped_causal_self_attention",
    "fused_causal_self_attention",
    "masked_multi_head",
)
"""The folders of the exercises."""

ALL: tuple[Exercise, ...] = tuple(import_module(f"exercises.{slug}").EXERCISE for slug in SERIES)

BY_SLUG = {exercise.slug: exercise for exercise in ALL}

__all__ = ["ALL", "BY_SLUG", "Exercise"]
