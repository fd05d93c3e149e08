"""Right answers to exercises, of which tests change a step."""

import torch
from torch import Tensor, nn

from headcheck.reference import causal_mask, merge_heads, split_heads


class Projections(nn.Module):
    """The three layers that make queries, keys and values."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values."""
        return self.W_query(x), self.W_key(x), self.W_value(x)


def weigh(queries: Tensor, keys: Tensor) -> Tensor:
    """Causal weights."""
    scores = queries @ keys.mT / keys.shape[-1] ** 0.5
    hidden = ~causal_mask(scores.shape[-1]).to(scores.device)
    weights: Tensor = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return weights


class CausalAttention(Projections):
    """Attention of one head; in training, `drop` drops weights."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, qkv_bias)
        self.rate = dropout

    def drop(self, weights: Tensor) -> Tensor:
        return nn.functional.dropout(weights, self.rate)

    def forward(self, x: Tensor) -> Tensor:
        queries, keys, values = self.project(x)
        weights = weigh(queries, keys)
        output: Tensor = (self.drop(weights) if self.training else weights) @ values
        return output


class MultiHeadAttention(Projections):
    """Attention of several heads with an output layer, and without dropout."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__(d_in, d_out, qkv_bias)
        self.num_heads, self.context_length = num_heads, context_length
        self.out_proj = nn.Linear(d_out, d_out)

    def average(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """What each head gives."""
        return weigh(queries, keys) @ values

    def merge(self, context: Tensor) -> Tensor:
        return merge_heads(context)

    def forward(self, x: Tensor) -> Tensor:
        parts = (split_heads(each, self.num_heads) for each in self.project(x))
        output: Tensor = self.out_proj(self.merge(self.average(*parts)))
        return output


class MultiHeadAttentionWrapper(nn.Module):
    """A module for each head, whose results are side by side; without dropout."""

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
        self.heads = nn.ModuleList(Projections(d_in, d_out, qkv_bias) for _ in range(num_heads))
        self.context_length, self.rate = context_length, dropout

    def weigh(self, queries: Tensor, keys: Tensor, head: int) -> Tensor:
        """The weights of a head."""
        return weigh(queries, keys)

    def forward(self, x: Tensor) -> Tensor:
        parts = []
        for number, head in enumerate(self.heads):
            assert isinstance(head, Projections)
            queries, keys, values = head.project(x)
            parts.append(self.weigh(queries, keys, number) @ values)
        return torch.cat(parts, dim=-1)
