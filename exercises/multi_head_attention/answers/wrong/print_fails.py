"""extra_repr uses an attribute that was never stored, so print(module), or of any model that holds it, raises AttributeError."""

import torch
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
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
            raise ValueError("num_heads must divide d_out")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        future = torch.ones(context_length, context_length, dtype=torch.bool).triu(1)
        self.register_buffer("future", future)

    def extra_repr(self) -> str:
        return f"{self.d_in} -> {self.d_out}, heads={self.num_heads}"

    def _split(self, t: Tensor) -> Tensor:
        batch, tokens, _ = t.shape
        return t.view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q = self._split(self.W_query(x))
        k = self._split(self.W_key(x))
        v = self._split(self.W_value(x))
        scores = q @ k.transpose(2, 3) / self.head_dim**0.5
        scores = scores.masked_fill(self.future[:tokens, :tokens], float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        weights = self.dropout(weights)
        context = (weights @ v).transpose(1, 2).reshape(batch, tokens, self.d_out)
        return self.out_proj(context)

