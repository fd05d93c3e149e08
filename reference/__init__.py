"""The oracle: attention as the paper writes it, computed in the dtype of the input.

    linear       x Wᵀ + b
    attention    softmax(Q Kᵀ / √d_k) V, the equation itself
    masks        which tokens may attend to which; True means "may attend"
    multi_head   project, split, attend, merge, project, with every intermediate result
    streaming    the same results computed differently: online softmax, and a key-value cache

Call these with float64 to use them as oracles. The two implementations share no arithmetic, and
agree up to a few units in the last place.
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
