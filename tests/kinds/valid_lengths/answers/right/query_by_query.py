"""Each sequence and each query by itself, with the keys that are valid cut out."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, num_hiddens, num_heads, dropout, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout)
        self.W_q = nn.Linear(d_in, num_hiddens, bias=bias)
        self.W_k = nn.Linear(d_in, num_hiddens, bias=bias)
        self.W_v = nn.Linear(d_in, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=False)

    def forward(self, queries, keys, values, valid_lens=None):
        heads = self.num_heads
        q, k, v = (
            layer(x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for layer, x in ((self.W_q, queries), (self.W_k, keys), (self.W_v, values))
        )
        batch, _, n, width = q.shape
        m = k.shape[2]
        if valid_lens is None:
            valid_lens = torch.full((batch,), m, device=q.device)
        lens = valid_lens.reshape(batch, -1).expand(batch, n)
        weights = torch.zeros(batch, heads, n, m, dtype=q.dtype, device=q.device)
        rows = []
        for b in range(batch):
            for i in range(n):
                length = int(lens[b, i])
                scores = (q[b, :, i, None, :] * k[b, :, :length]).sum(-1) / width**0.5
                row = torch.softmax(scores, dim=-1)
                rows.append(nn.functional.pad(row, (0, m - length)))
        weights = torch.stack(rows).reshape(batch, n, heads, m).transpose(1, 2)
        mixed = self.dropout(weights) @ v
        return self.W_o(mixed.transpose(1, 2).flatten(2))
