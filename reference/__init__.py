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

from headcheck.reference.attention import attention_weights as attention_weights
from headcheck.reference.attention import (
    causal_weights_by_renormalising as causal_weights_by_renormalising,
)
from headcheck.reference.attention import linear as linear
from headcheck.reference.attention import masked_softmax as masked_softmax
from headcheck.reference.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from headcheck.reference.attention import scaled_scores as scaled_scores
from headcheck.reference.attention import softmax_with_sinks as softmax_with_sinks
from headcheck.reference.block import BlockResult as BlockResult
from headcheck.reference.block import activate as activate
from headcheck.reference.block import enter_block as enter_block
from headcheck.reference.block import gelu as gelu
from headcheck.reference.block import gelu_by_tanh as gelu_by_tanh
from headcheck.reference.block import transformer_block as transformer_block
from headcheck.reference.masks import causal_lower_right_mask as causal_lower_right_mask
from headcheck.reference.masks import causal_mask as causal_mask
from headcheck.reference.masks import padding_mask as padding_mask
from headcheck.reference.masks import sliding_window_mask as sliding_window_mask
from headcheck.reference.masks import to_bool_mask as to_bool_mask
from headcheck.reference.multi_head import MultiHeadResult as MultiHeadResult
from headcheck.reference.multi_head import Parameters as Parameters
from headcheck.reference.multi_head import append_beside as append_beside
from headcheck.reference.multi_head import ask_gate as ask_gate
from headcheck.reference.multi_head import leave_heads as leave_heads
from headcheck.reference.multi_head import merge_heads as merge_heads
from headcheck.reference.multi_head import multi_head_attention as multi_head_attention
from headcheck.reference.multi_head import project as project
from headcheck.reference.multi_head import project_beside as project_beside
from headcheck.reference.multi_head import split_heads as split_heads
from headcheck.reference.multi_head import split_shared_heads as split_shared_heads
from headcheck.reference.relative import EveryPair as EveryPair
from headcheck.reference.relative import LearnedBias as LearnedBias
from headcheck.reference.relative import RelativeBuckets as RelativeBuckets
from headcheck.reference.relative import WindowOffsets as WindowOffsets
from headcheck.reference.rotary_scaling import RotaryScaling as RotaryScaling
from headcheck.reference.streaming import KeyValueCache as KeyValueCache
from headcheck.reference.streaming import online_attention as online_attention
from headcheck.reference.streaming import online_multi_head_attention as online_multi_head_attention
from headcheck.reference.streaming import recurrent_attention as recurrent_attention
from headcheck.reference.variant import PLAIN as PLAIN
from headcheck.reference.variant import BlockSteps as BlockSteps
from headcheck.reference.variant import HeadNorm as HeadNorm
from headcheck.reference.variant import Variant as Variant
from headcheck.reference.variant import alibi_bias as alibi_bias
from headcheck.reference.variant import alibi_slopes as alibi_slopes
from headcheck.reference.variant import elu_features as elu_features
from headcheck.reference.variant import join_maps as join_maps
from headcheck.reference.variant import linear_shares as linear_shares
from headcheck.reference.variant import rotary_angles as rotary_angles
from headcheck.reference.variant import rotary_tables as rotary_tables
from headcheck.reference.variant import share_heads as share_heads
from headcheck.reference.variant import split_maps as split_maps
from headcheck.reference.variant import swap_halves as swap_halves
