"""A frozen record of x and the weights; every quantity of the formula is a property of it."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Attention:
    x: Tensor
    W_q: Tensor
    W_k: Tensor
    W_v: Tensor

    @cached_property
    def keys(self) -> Tensor:
        return self.x @ self.W_k

    @property
    def scores(self) -> Tensor:
        return (self.x @ self.W_q) @ self.keys.transpose(-1, -2)

    @property
    def weights(self) -> Tensor:
        return torch.softmax(self.scores / self.keys.shape[-1] ** 0.5, -1)

    @property
    def context(self) -> Tensor:
        return self.weights @ (self.x @ self.W_v)


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    return Attention(x, W_query, W_key, W_value).context
