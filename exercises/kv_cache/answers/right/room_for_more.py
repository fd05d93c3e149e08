"""Style: a buffer with room for more, copied at every call, and its length."""

import torch
from torch import nn


class CachedAttention(nn.Module):
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

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        shape = (b, t, self.num_heads, self.head_dim)
        q, k, v = (w(x).view(shape).transpose(1, 2) for w in (self.W_query, self.W_key, self.W_value))
        past = 0 if cache is None else cache[2]
        room = 16 * ((past + t) // 16 + 1)
        kept = x.new_zeros(2, b, self.num_heads, room, self.head_dim)
        if cache is not None:
            kept[0, :, :, :past], kept[1, :, :, :past] = cache[0], cache[1]
        kept = torch.cat([kept[:, :, :, :past], torch.stack([k, v]), kept[:, :, :, past + t :]], 3)
        keys, values = kept[:, :, :, : past + t]
        scores = q @ keys.mT / self.head_dim**0.5
        i = torch.arange(t, device=x.device)[:, None] + past
        scores[..., torch.arange(past + t, device=x.device) > i] = -torch.inf
        context = self.dropout(scores.softmax(-1)) @ values
        return self.out_proj(context.transpose(1, 2).flatten(2)), (keys, values, past + t)
