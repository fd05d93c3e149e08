"""Scores of zero are taken for masked ones. (named: zero_scores_hidden)"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "please choose num_heads so that it divides d_out"
        self.attn_drop = nn.Dropout(p=dropout)
        self.out_proj = nn.Linear(d_out, d_out)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.num_heads = num_heads

    def forward(self, x):
        keys = self.W_key(x)
        queries = self.W_query(x)
        values = self.W_value(x)
        hd = values.shape[-1] // self.num_heads

        z = torch.empty_like(values)
        for h in range(self.num_heads):
            lo, hi = h * hd, (h + 1) * hd
            logits = queries[:, :, lo:hi] @ keys[:, :, lo:hi].transpose(1, 2)
            logits = torch.tril(logits)
            logits = logits.masked_fill(logits == 0, -torch.inf)
            alpha = torch.softmax(logits / hd**0.5, dim=-1)
            z[:, :, lo:hi] = self.attn_drop(alpha) @ values[:, :, lo:hi]
        return self.out_proj(z)
