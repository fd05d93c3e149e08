"""A window on both sides of a token, which no equation of ours has, is no mistake."""

import pytest

from headcheck.properties.binding.binding import NotBound, bind
from tests.forms.bank import open_class

LOCAL = """\
import torch
from torch import nn


class LocalAttention(nn.Module):
    def __init__(self, dim, num_heads, window_size):
        super().__init__()
        self.heads, self.window = num_heads, window_size
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        at = torch.arange(x.shape[1])
        far = (at[:, None] - at).abs() > self.window // 2
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(far, -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.filterwarnings("ignore")
def test_a_window_on_both_sides_is_not_judged() -> None:
    found = bind(*open_class(LOCAL, "LocalAttention"))
    assert isinstance(found, NotBound)
    assert found.tried == "a window on both sides of a token: not judged"
