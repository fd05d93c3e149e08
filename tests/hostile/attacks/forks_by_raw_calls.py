"""Forks by fork, vfork, clone and clone3 as raw system calls, past every wrapper."""

import ctypes
import functools
import os
import platform
import signal
import time

import torch.nn.functional as F
from torch import nn


libc = ctypes.CDLL(None, use_errno=True)
FORK, VFORK, CLONE, CLONE3 = (
    (57, 58, 56, 435) if platform.machine() == "x86_64" else (0, 0, 220, 435)
)


class CloneArguments(ctypes.Structure):
    _fields_ = [(str(i), ctypes.c_uint64) for i in range(11)]


@functools.cache
def attack():
    won = []
    by_size = CloneArguments()
    setattr(by_size, "4", signal.SIGCHLD)
    calls = [("clone", CLONE, (signal.SIGCHLD, 0, 0, 0, 0))]
    calls += [("clone3", CLONE3, (ctypes.byref(by_size), ctypes.sizeof(by_size)))]
    calls += [("fork", FORK, ())] if FORK else []
    for name, number, arguments in calls:
        pid = libc.syscall(number, *arguments)
        if pid == 0:
            time.sleep(20)
            os._exit(0)
        if pid > 0:
            won.append(name)
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
