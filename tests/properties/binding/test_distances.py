"""The distance from which on tokens share a learned number is found, whatever it is."""

import pytest

from tests.properties.binding.strangers import must_bind

SOURCE = """\
import math
import torch
from torch import nn


class Biased(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.relative_attention_bias = nn.Embedding(32, heads)

    def find_buckets(self, distance):
        size = (-distance).clamp(min=0)
        share = torch.log(size.clamp(min=1).double() / 16) / math.log(FARTHEST / 16)
        far = 16 + (share * 16).long()
        return torch.where(size < 16, size, far.clamp(max=31))

    def forward(self, x):
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        place = torch.arange(x.shape[1])
        bias = self.relative_attention_bias(self.find_buckets(place - place[:, None]))
        scores = q @ k.mT + bias.permute(2, 0, 1)
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(("farthest", "found"), [(128, 128), (64, 64), (1000, 128)])
def test_the_farthest_distance_is_found_or_else_the_usual_one(farthest: int, found: int) -> None:
    """Once headcheck failed where no usual distance was the one: 16 have numbers of their own."""
    binding = must_bind(SOURCE.replace("FARTHEST", str(farthest)), "Biased")
    assert binding.contract.relative_farthest == found
