"""The parameters are collected in a list at construction and after loading or moving: module.W_query.weight = nn.Parameter(pretrained), as GPT-2 loaders do it, is ignored."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _collect_again(module, incompatible_keys) -> None:
    module._collect()


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
        self._collect()
        self.register_load_state_dict_post_hook(_collect_again)

    def _collect(self) -> None:
        layers = (self.W_query, self.W_key, self.W_value)
        self._projections = [(layer.weight, layer.bias) for layer in layers]

    def _apply(self, *args, **kwargs):
        super()._apply(*args, **kwargs)
        self._collect()
        return self

    def _split(self, t: Tensor) -> Tensor:
        batch, tokens, _ = t.shape
        return t.view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q, k, v = (self._split(F.linear(x, w, b)) for w, b in self._projections)
        scores = q @ k.transpose(2, 3) / self.head_dim**0.5
        scores = scores.masked_fill(self.future[:tokens, :tokens], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))
        context = (weights @ v).transpose(1, 2).reshape(batch, tokens, self.d_out)
        return self.out_proj(context)

