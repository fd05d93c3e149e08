"""Each weight is a sigmoid of its own score. (named: sigmoid)"""

import torch
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    visible: Tensor

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
            raise ValueError(f"d_out ({d_out}) is no multiple of num_heads ({num_heads})")
        self.heads = num_heads
        self.scale = (d_out // num_heads) ** -0.5
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        visible = torch.ones(1, 1, context_length, context_length, dtype=torch.bool).tril()
        self.register_buffer("visible", visible, persistent=False)

    def split(self, y: Tensor) -> Tensor:
        return y.unflatten(2, (self.heads, y.shape[2] // self.heads)).transpose(1, 2)

    def weights(self, x: Tensor) -> Tensor:
        queries, keys = self.split(self.W_query(x)), self.split(self.W_key(x))
        attn_scores = self.scale * (queries @ keys.mT)
        tokens = x.shape[1]
        visible = self.visible[:, :, :tokens, :tokens]
        return attn_scores.masked_fill(visible.logical_not(), -torch.inf).sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        values = self.split(self.W_value(x))
        context = self.dropout(self.weights(x)) @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))
