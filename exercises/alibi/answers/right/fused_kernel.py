"""Style: torch's fused attention, with mask and distances in one matrix."""

import torch
from torch import nn


class AlibiAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
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
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        wide = torch.promote_types(x.dtype, torch.float32)
        head = torch.arange(1, self.num_heads + 1, dtype=wide, device=x.device)
        position = torch.arange(x.shape[1], dtype=wide, device=x.device)
        distance = position[:, None] - position
        bias = -torch.exp2(-8 * head / self.num_heads)[:, None, None] * distance
        bias = bias.masked_fill(distance < 0, float("-inf")).to(x.dtype)
        context = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=bias, dropout_p=self.dropout.p if self.training else 0.0
        )
        return self.out_proj(context.transpose(1, 2).flatten(2))
