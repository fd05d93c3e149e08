"""Keys that do not fill a block of four are ignored once there is a full one."""

import math

import torch
from torch import nn

BLOCK = 4


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("d_out must be a multiple of num_heads")
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, y):
        return y.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        T = x.shape[1]
        query = self.split(self.W_query(x)) / math.sqrt(self.head_dim)
        key = self.split(self.W_key(x))
        value = self.split(self.W_value(x))
        rows = torch.arange(T, device=x.device).unsqueeze(1)

        top = query.new_full((*query.shape[:-1], 1), -math.inf)
        total = torch.zeros_like(top)
        ctx = torch.zeros_like(query)
        for start in range(0, max(T - BLOCK, 0) + 1, BLOCK):
            stop = min(start + BLOCK, T)
            columns = torch.arange(start, stop, device=x.device)
            logits = query @ key[:, :, start:stop].transpose(2, 3)
            logits = logits.masked_fill(columns > rows, -math.inf)
            # the result does not depend on the maximum, so no gradient goes through it
            new_top = torch.maximum(top, logits.detach().amax(dim=-1, keepdim=True))
            shrink = torch.exp(top - new_top)
            probs = torch.exp(logits - new_top)
            total = total * shrink + probs.sum(dim=-1, keepdim=True)
            ctx = ctx * shrink + self.dropout(probs) @ value[:, :, start:stop]
            top = new_top
        ctx = ctx / total
        return self.out_proj(ctx.transpose(1, 2).flatten(2))
