"""Style: torch's fused attention, with one more key and value of zeros, and the sink in its mask."""

import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.sinks = nn.Parameter(torch.zeros(num_heads))
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        b, h, t, _ = q.shape
        k, v = (nn.functional.pad(one, (0, 0, 0, 1)) for one in (k, v))
        future = torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        sinks = self.sinks.view(h, 1, 1).expand(h, t, 1)
        added = torch.cat([future.expand(h, t, t), sinks], dim=-1).expand(b, h, t, t + 1)
        context = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=added, dropout_p=self.dropout.p if self.training else 0.0
        )
        return self.out_proj(context.transpose(1, 2).flatten(2))
