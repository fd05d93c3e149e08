"""BartAttention of transformers 5.23, computed eagerly, with the tokens that are attended to."""

from transformers import BartConfig
from transformers.models.bart.modeling_bart import BartAttention


class Bart(BartAttention):
    def __init__(self, embed_dim, num_heads, dropout=0.0):
        config = BartConfig(attn_implementation="eager")
        super().__init__(embed_dim, num_heads, dropout, config=config)
