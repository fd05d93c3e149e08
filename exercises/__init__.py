"""What students are asked, in teaching order. One folder each; see `exercises.exercise`."""

from exercises import (
    causal_attention,
    causal_self_attention,
    causal_weights,
    fused_causal_self_attention,
    gpt2_size,
    linear_layer,
    looped_causal_self_attention,
    masked_multi_head,
    multi_head_attention,
    multi_head_wrapper,
    scaled_dot_product,
    self_attention_v1,
    self_attention_v2,
    simplified_attention,
    two_dimensional_output,
    weight_transfer,
)
from exercises.exercise import Exercise

ALL: tuple[Exercise, ...] = (
    linear_layer.EXERCISE,
    simplified_attention.EXERCISE,
    scaled_dot_product.EXERCISE,
    self_attention_v1.EXERCISE,
    self_attention_v2.EXERCISE,
    weight_transfer.EXERCISE,
    causal_weights.EXERCISE,
    causal_attention.EXERCISE,
    multi_head_wrapper.EXERCISE,
    two_dimensional_output.EXERCISE,
    multi_head_attention.EXERCISE,
    gpt2_size.EXERCISE,
    causal_self_attention.EXERCISE,
    looped_causal_self_attention.EXERCISE,
    fused_causal_self_attention.EXERCISE,
    masked_multi_head.EXERCISE,
)

BY_SLUG = {exercise.slug: exercise for exercise in ALL}

__all__ = ["ALL", "BY_SLUG", "Exercise"]
