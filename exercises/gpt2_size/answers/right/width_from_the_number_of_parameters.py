"""Style: the width is solved for, from the number of parameters that the statement gives."""

import math

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
        batch, tokens, _ = x.shape
        per_head = (batch, tokens, self.num_heads, self.head_dim)
        queries = self.W_query(x).view(per_head).transpose(1, 2)
        keys = self.W_key(x).view(per_head).transpose(1, 2)
        values = self.W_value(x).view(per_head).transpose(1, 2)

        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        scores = scores.masked_fill(self.is_future[:tokens, :tokens], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))

        context = (weights @ values).transpose(1, 2).reshape(batch, tokens, self.d_out)
        output: Tensor = self.out_proj(context)
        return output


def gpt2_small_attention():
    # 4 d² + d = 2,360,064
    width = (math.isqrt(1 + 16 * 2_360_064) - 1) // 8
    module = MultiHeadAttention(width, width, 2**10, 0.0, width // 64)
    assert sum(p.numel() for p in module.parameters()) == 2_360_064
    return module
