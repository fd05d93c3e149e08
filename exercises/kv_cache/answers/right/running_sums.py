"""Style: a sum over keys in blocks, with a running maximum, as kernels do it."""

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
        blocks = [] if cache is None else list(cache)
        past = sum(keys.shape[2] for keys, _ in blocks)
        blocks.append((k, v))
        if self.training and self.dropout.p > 0:
            keys, values = (torch.cat(part, dim=2) for part in zip(*blocks))
            scores = self.scores(q, keys, past, 0)
            return self.finish(self.dropout(scores.softmax(-1)) @ values), blocks
        best = torch.full_like(q[..., :1], -torch.inf)
        total, mixed, start = torch.zeros_like(best), torch.zeros_like(q), 0
        for keys, values in blocks:
            scores = self.scores(q, keys, past, start)
            new = torch.maximum(best, scores.amax(-1, keepdim=True))
            shrink, weights = (best - new).exp(), (scores - new).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            mixed = mixed * shrink + weights @ values
            best, start = new, start + keys.shape[2]
        return self.finish(mixed / total), blocks

    def scores(self, q, keys, past, start):
        i = torch.arange(q.shape[2], device=q.device)[:, None] + past
        j = torch.arange(keys.shape[2], device=q.device) + start
        return (q @ keys.mT / self.head_dim**0.5).masked_fill(j > i, -torch.inf)

    def finish(self, context):
        return self.out_proj(context.transpose(1, 2).flatten(2))
