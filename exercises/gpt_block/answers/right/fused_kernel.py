"""Style: torch computes attention."""

from torch import nn


class GPTBlock(nn.Module):
    def __init__(self, emb_dim, num_heads, qkv_bias=False):
        super().__init__()
        assert emb_dim % num_heads == 0, "num_heads must divide emb_dim"
        self.num_heads = num_heads
        self.head_dim = emb_dim // num_heads
        self.norm1 = nn.LayerNorm(emb_dim)
        self.W_query = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.W_key = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.W_value = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.out_proj = nn.Linear(emb_dim, emb_dim)
        self.norm2 = nn.LayerNorm(emb_dim)
        self.linear1 = nn.Linear(emb_dim, 4 * emb_dim)
        self.linear2 = nn.Linear(4 * emb_dim, emb_dim)
        self.gelu = nn.GELU()

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.linear2(self.gelu(self.linear1(self.norm2(x))))

    def attend(self, n):
        q, k, v = (
            layer(n).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        context = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(context.transpose(1, 2).flatten(2))
