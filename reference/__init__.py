"""What right means: attention as the paper writes it, functional, in whatever dtype it is given.

    linear       x Wᵀ + b
    attention    softmax(Q Kᵀ / √d_k) V, the equation itself
    masks        who may attend to whom; True means "may attend"
    multi_head   project, split, attend, merge, project, with every intermediate result
    streaming    the same answers by another road: online softmax, and a key-value cache

Call these with float64 to use them as oracles. The two roads share no arithmetic, and agree to
the last few units of the last place.
"""

from reference.attention import (
    attention_weights,
    causal_weights_by_renormalising,
    scaled_dot_product_attention,
    scaled_scores,
)
from reference.linear import linear
from reference.masks import (
    causal_lower_right_mask,
    causal_mask,
    padding_mask,
    sliding_window_mask,
    to_bool_mask,
)
from reference.multi_head import (
    MultiHeadResult,
    Parameters,
    merge_heads,
    multi_head_attention,
    split_heads,
)
from reference.streaming import (
    KeyValueCache,
    online_attention,
    online_multi_head_attention,
)

__all__ = [
    "KeyValueCache",
    "MultiHeadResult",
    "Parameters",
    "attention_weights",
    "causal_lower_right_mask",
    "causal_mask",
    "causal_weights_by_renormalising",
    "linear",
    "merge_heads",
    "multi_head_attention",
    "online_attention",
    "online_multi_head_attention",
    "padding_mask",
    "scaled_dot_product_attention",
    "scaled_scores",
    "sliding_window_mask",
    "split_heads",
    "to_bool_mask",
]
