"""A class of its own that visits sequences and heads in plain loops."""

import torch
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Let several heads attend causally, side by side, and mix what they found."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError(f"d_out={d_out} cannot be split evenly among num_heads={num_heads}")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.is_future: Tensor
        future = torch.ones(context_length, context_length, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("is_future", future)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, d_in) to (batch, tokens, d_out); no token sees a later one."""
        sequences = []
        for tokens in x:
            q, k, v = self.W_query(tokens), self.W_key(tokens), self.W_value(tokens)
            hidden = self.is_future[: len(tokens), : len(tokens)]
            heads = []
            for h in range(self.num_heads):
                own = slice(h * self.head_dim, (h + 1) * self.head_dim)
                scores = q[:, own] @ k[:, own].T / self.head_dim**0.5
                scores = scores.masked_fill(hidden, float("-inf"))
                heads.append(self.dropout(torch.softmax(scores, dim=-1)) @ v[:, own])
            sequences.append(torch.cat(heads, dim=-1))
        return self.out_proj(torch.stack(sequences))


def gpt2_small_attention():
    return MultiHeadAttention(768, 768, 1024, 0.0, 12)
