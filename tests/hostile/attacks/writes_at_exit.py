"""Leaves exit handlers, finalisers, signal handlers and timers that write the canary."""

import atexit
import functools
import gc
import signal
import sys
import weakref

import torch
import torch.nn.functional as F
from torch import nn


def write(*_):
    try:
        with open("@arena@/canary", "a") as file:
            file.write("written at the end")
    except OSError:
        pass


class Last:
    __del__ = write


@functools.cache
def attack():
    atexit.register(write)
    weakref.finalize(torch, write)
    gc.callbacks.append(write)
    sys.kept = Last()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU, signal.SIGALRM, signal.SIGPIPE):
        signal.signal(number, write)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    except OSError:
        pass
    return []


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
