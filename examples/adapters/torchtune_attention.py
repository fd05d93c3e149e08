"""MultiHeadAttention of torchtune 0.6, which is given its layers; causal without a mask."""

from torch import nn
from torchtune.modules import MultiHeadAttention


class TorchtuneAttention(MultiHeadAttention):
    def __init__(self, embed_dim, num_heads, attn_dropout=0.0):
        names = ("q_proj", "k_proj", "v_proj", "output_proj")
        layers = {name: nn.Linear(embed_dim, embed_dim, bias=False) for name in names}
        sizes = {"num_heads": num_heads, "num_kv_heads": num_heads, "head_dim": embed_dim // num_heads}
        super().__init__(embed_dim=embed_dim, attn_dropout=attn_dropout, **sizes, **layers)

    def forward(self, x):
        return super().forward(x, x)
