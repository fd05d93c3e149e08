"""Puts tensors and blocks in shared memory by every way Python and torch know, and leaves them."""

import functools
from multiprocessing import shared_memory

import torch
import torch.nn.functional as F
from torch import nn


@functools.cache
def attack():
    won = []
    try:
        shared_memory.SharedMemory("@token@", create=True, size=32 << 20)
        won.append("shared_memory")
    except (OSError, ImportError):
        pass
    try:
        with open("/dev/shm/@token@", "wb") as file:
            file.write(bytes(8 << 20))
        won.append("/dev/shm")
    except OSError:
        pass
    try:
        torch.zeros(1 << 20).share_memory_()
        won.append("torch")
    except (OSError, RuntimeError):
        pass
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
