"""ViTAttention of transformers 5.23, through torch's fused attention."""

from transformers import ViTConfig
from transformers.models.vit.modeling_vit import ViTAttention


class ViT(ViTAttention):
    def __init__(self, hidden_size, num_attention_heads, dropout=0.0):
        sizes = {"hidden_size": hidden_size, "num_attention_heads": num_attention_heads}
        rates = {"attention_probs_dropout_prob": dropout}
        super().__init__(ViTConfig(**sizes, **rates, attn_implementation="sdpa"))
