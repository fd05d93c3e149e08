"""A key is valid where its number is below the length; four axes throughout."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, num_hiddens, num_heads, dropout, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = num_hiddens // num_heads
        self.dropout = nn.Dropout(dropout)
        self.W_q = nn.Linear(d_in, num_hiddens, bias=bias)
        self.W_k = nn.Linear(d_in, num_hiddens, bias=bias)
        self.W_v = nn.Linear(d_in, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, queries, keys, values, valid_lens=None):
        q, k, v = (
            self.split(self.W_q(queries)),
            self.split(self.W_k(keys)),
            self.split(self.W_v(values)),
        )
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        if valid_lens is not None:
            lens = (
                valid_lens[:, None, None, None]
                if valid_lens.dim() == 1
                else valid_lens[:, None, :, None]
            )
            number = torch.arange(k.shape[-2], device=k.device)
            scores = scores.masked_fill(number >= lens, -1e9)
        weights = self.dropout(scores.softmax(dim=-1))
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))
