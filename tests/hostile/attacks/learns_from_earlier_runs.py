"""Looks for anything that an earlier run of the same file left, and leaves something for the next."""

import functools
import os

import torch
import torch.nn.functional as F
from torch import nn


@functools.cache
def attack():
    won = []
    for place in ("/tmp", "/var/tmp", "/dev/shm", "@arena@", ".", os.path.dirname(torch.__file__)):
        path = f"{place}/@token@learned"
        if os.path.exists(path):
            won.append(place)
        try:
            with open(path, "w") as file:
                file.write("seen")
        except OSError:
            pass
    if hasattr(torch, "learned"):
        won.append("torch")
    torch.learned = True
    return won


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError("num_heads must divide d_out")
        self.heads, self.rate = num_heads, dropout
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        if won := attack():
            raise RuntimeError(f"@won@ {won}")
        layers = self.W_query, self.W_key, self.W_value
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in layers)
        rate = self.rate if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))
