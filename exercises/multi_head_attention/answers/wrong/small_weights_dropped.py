"""Weights below a thousandth are set to zero. (named: small_weights_dropped)"""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Settings:
    d_in: int
    d_out: int
    context_length: int
    dropout: float
    num_heads: int
    qkv_bias: bool

    def __post_init__(self) -> None:
        if self.d_out % self.num_heads:
            raise ValueError(f"{self.num_heads} heads cannot share {self.d_out} features")

    @property
    def head_dim(self) -> int:
        return self.d_out // self.num_heads


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
        self.cfg = Settings(d_in, d_out, context_length, dropout, num_heads, qkv_bias)
        self.W_query = self._projection()
        self.W_key = self._projection()
        self.W_value = self._projection()
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def _projection(self) -> nn.Linear:
        return nn.Linear(self.cfg.d_in, self.cfg.d_out, bias=self.cfg.qkv_bias)

    def _split(self, y: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = y.shape
        return y.view(batch, tokens, self.cfg.num_heads, self.cfg.head_dim).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self._split(w(x)) for w in (self.W_query, self.W_key, self.W_value))
        tokens = x.shape[1]
        allowed = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).tril()
        logits = q @ k.transpose(2, 3) * self.cfg.head_dim**-0.5
        logits = logits.masked_fill(~allowed, -torch.inf)
        attention = logits.softmax(dim=-1)
        attention = self.dropout(attention * (attention > 1e-3))
        return self.out_proj((attention @ v).transpose(1, 2).flatten(2))
