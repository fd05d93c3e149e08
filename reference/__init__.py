"""The oracle: attention as in the paper, computed in the dtype of the input.

    attention    x Wᵀ + b, and softmax(Q Kᵀ / √d_k) V, the equation itself
    masks        which tokens may attend to which; True means "may attend"
    multi_head   project, split, attend, merge, project, with every intermediate result
    variant      extensions of models: norms, positions, limits of scores, heads that share keys
    rotary_scaling   rotary frequencies for longer sequences
    block        attention and a feed-forward, each behind a norm and beside a residual
    streaming    the same results computed differently: online softmax, and a key-value cache

Call these with float64 to use them as oracles. `multi_head` and `streaming` share no arithmetic,
and agree up to a few units in the last place.
"""

from headcheck.reference.attention import (
    attention_weights,
    causal_weights_by_renormalising,
    linear,
    masked_softmax,
    scaled_dot_product_attention,
    scaled_scores,
    softmax_with_sinks,
)
from headcheck.reference.block import (
    BlockResult,
    activate,
    enter_block,
    gelu,
    gelu_by_tanh,
    transformer_block,
)
from headcheck.reference.masks import (
    causal_lower_right_mask,
    causal_mask,
    padding_mask,
    sliding_window_mask,
    to_bool_mask,
)
from headcheck.reference.multi_head import (
    MultiHeadResult,
    Parameters,
    append_beside,
    ask_gate,
    leave_heads,
    merge_heads,
    multi_head_attention,
    project,
    project_beside,
    split_heads,
    split_shared_heads,
)
from headcheck.reference.relative import EveryPair, LearnedBias, RelativeBuckets, WindowOffsets
from headcheck.reference.rotary_scaling import RotaryScaling
from headcheck.reference.streaming import (
    KeyValueCache,
    online_attention,
    online_multi_head_attention,
    recurrent_attention,
)
from headcheck.reference.variant import (
    PLAIN,
    BlockSteps,
    HeadNorm,
    Variant,
    alibi_bias,
    alibi_slopes,
    elu_features,
    join_maps,
    linear_shares,
    rotary_angles,
    rotary_tables,
    share_heads,
    split_maps,
    swap_halves,
)

__all__ = [
    "PLAIN",
    "BlockResult",
    "BlockSteps",
    "EveryPair",
    "HeadNorm",
    "KeyValueCache",
    "LearnedBias",
    "MultiHeadResult",
    "Parameters",
    "RelativeBuckets",
    "RotaryScaling",
    "Variant",
    "WindowOffsets",
    "activate",
    "alibi_bias",
    "alibi_slopes",
    "append_beside",
    "ask_gate",
    "attention_weights",
    "causal_lower_right_mask",
    "causal_mask",
    "causal_weights_by_renormalising",
    "elu_features",
    "enter_block",
    "gelu",
    "gelu_by_tanh",
    "join_maps",
    "leave_heads",
    "linear",
    "linear_shares",
    "masked_softmax",
    "merge_heads",
    "multi_head_attention",
    "online_attention",
    "online_multi_head_attention",
    "padding_mask",
    "project",
    "project_beside",
    "recurrent_attention",
    "rotary_angles",
    "rotary_tables",
    "scaled_dot_product_attention",
    "scaled_scores",
    "share_heads",
    "sliding_window_mask",
    "softmax_with_sinks",
    "split_heads",
    "split_maps",
    "split_shared_heads",
    "swap_halves",
    "to_bool_mask",
    "transformer_block",
]
