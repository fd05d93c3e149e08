"""Style: padding is lowered by one more column of queries and keys, before the product."""

import torch
from torch import nn


class PaddedAttention(nn.Module):
    """Padding is hidden from all."""

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

    def forward(self, x, mask=None):
        queries = self.split(self.W_query(x)) / self.head_dim**0.5
        keys, values = self.split(self.W_key(x)), self.split(self.W_value(x))
        if mask is not None:
            low = torch.where(mask, 0.0, -1e30).to(x.dtype)
            low = low[:, None, :, None].expand(-1, self.num_heads, -1, -1)
            queries = torch.cat([queries, torch.ones_like(queries[..., :1])], dim=-1)
            keys = torch.cat([keys, low], dim=-1)
        weights = self.dropout((queries @ keys.mT).softmax(dim=-1))
        return self.out_proj((weights @ values).transpose(1, 2).flatten(2))
