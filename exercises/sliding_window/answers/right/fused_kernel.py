"""Style: torch's fused attention with a mask of what is seen."""

import torch
from torch import nn


class SlidingWindowAttention(nn.Module):
    """Every token sees itself and the window - 1 tokens before it."""

    def __init__(self, d_in, d_out, window, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.window = window
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        place = torch.arange(x.shape[1], device=x.device)
        first = place - self.window + 1
        seen = (place <= place[:, None]) & (place >= first[:, None])
        rate = self.dropout.p if self.training else 0.0
        context = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, dropout_p=rate
        )
        return self.out_proj(context.transpose(1, 2).flatten(2))
