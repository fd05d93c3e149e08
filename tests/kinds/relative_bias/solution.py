"""Buckets by the logarithm, looked up in an embedding; bidirectional, as in an encoder."""

import math

import torch
from torch import nn


class T5Attention(nn.Module):
    def __init__(self, d_model, inner_dim, num_heads):
        super().__init__()
        self.n_heads = num_heads
        self.buckets, self.max_distance = 12, 10
        self.q = nn.Linear(d_model, inner_dim, bias=False)
        self.k = nn.Linear(d_model, inner_dim, bias=False)
        self.v = nn.Linear(d_model, inner_dim, bias=False)
        self.o = nn.Linear(inner_dim, inner_dim, bias=False)
        self.relative_attention_bias = nn.Embedding(self.buckets, num_heads)

    def bucket(self, relative_position):
        num_buckets = self.buckets // 2
        relative_buckets = (relative_position > 0).to(torch.long) * num_buckets
        relative_position = torch.abs(relative_position)
        max_exact = num_buckets // 2
        is_small = relative_position < max_exact
        large = max_exact + (
            torch.log(relative_position.float() / max_exact)
            / math.log(self.max_distance / max_exact)
            * (num_buckets - max_exact)
        ).to(torch.long)
        large = torch.min(large, torch.full_like(large, num_buckets - 1))
        relative_buckets += torch.where(is_small, relative_position, large)
        return relative_buckets

    def compute_bias(self, query_length, key_length, device):
        context_position = torch.arange(query_length, device=device)[:, None]
        memory_position = torch.arange(key_length, device=device)[None, :]
        values = self.relative_attention_bias(self.bucket(memory_position - context_position))
        return values.permute([2, 0, 1]).unsqueeze(0)

    def forward(self, hidden_states, mask=None):
        batch, tokens, _ = hidden_states.shape
        q, k, v = (
            layer(hidden_states).view(batch, tokens, self.n_heads, -1).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        scores = torch.matmul(q, k.transpose(3, 2))
        scores = scores + self.compute_bias(tokens, tokens, scores.device)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = nn.functional.softmax(scores, dim=-1)
        out = torch.matmul(weights, v).transpose(1, 2).contiguous().view(batch, tokens, -1)
        return self.o(out)
