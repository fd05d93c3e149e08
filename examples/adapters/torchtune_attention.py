"""MultiHeadAttention of torchtune 0.6 as Llama has it there: rotary positions, shared keys."""

from torch import nn
from torchtune.modules import MultiHeadAttention, RotaryPositionalEmbeddings


class TorchtuneAttention(MultiHeadAttention):
    def __init__(self, embed_dim, num_heads, num_kv_heads, attn_dropout=0.0):
        head_dim = embed_dim // num_heads
        widths = {"q_proj": embed_dim, "k_proj": num_kv_heads * head_dim}
        widths |= {"v_proj": num_kv_heads * head_dim, "output_proj": embed_dim}
        layers = {name: nn.Linear(embed_dim, width, bias=False) for name, width in widths.items()}
        sizes = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
        turning = RotaryPositionalEmbeddings(head_dim, max_seq_len=2048)
        super().__init__(
            embed_dim=embed_dim,
            attn_dropout=attn_dropout,
            pos_embeddings=turning,
            **sizes,
            **layers,
        )

    def forward(self, x):
        return super().forward(x, x)
