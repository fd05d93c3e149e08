"""Attention in windows that a class cuts images into: judged on images of one window."""

import pytest
import torch

from headcheck.grader.sandbox.worker.given import lay_window
from tests.grader.conftest import GradeAll

SOURCE = """\
import torch
from torch import nn


def cut(x, w):
    b, h, c, d = x.shape
    return x.view(b, h // w, w, c // w, w, d).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, d)


def lay(x, w, h, c):
    b = x.shape[0] * w * w // (h * c)
    return x.view(b, h // w, c // w, w, w, -1).permute(0, 1, 3, 2, 4, 5).reshape(b, h, c, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, num_heads, window_size=4, shift_size=0):
        super().__init__()
        self.num_heads, self.window_size, self.shift_size = num_heads, window_size, shift_size
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def find_regions(self, h, c):
        def mark(n):
            later = torch.arange(n)
            return (later >= n - self.window_size).int() + (later >= n - self.shift_size).int()

        regions = 3 * mark(h)[:, None] + mark(c)
        regions = cut(regions[None, :, :, None], self.window_size)[..., 0]
        return regions[:, None] == regions[:, :, None]

    def forward(self, x):
        b, h, c, d = x.shape
        w, s = self.window_size, self.shift_size
        x = cut(x.roll((-s, -s), (1, 2)), w)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if s:
            regions = self.find_regions(h, c).repeat(b, 1, 1)
            scores = scores.masked_fill(~regions[:, None], float("-inf"))
        x = self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return lay(x, w, h, c).roll((s, s), (1, 2))
"""


def test_a_window_is_a_square() -> None:
    assert torch.equal(lay_window(torch.arange(9)[:, None]), torch.arange(9).view(1, 3, 3, 1))
    with pytest.raises(ValueError, match="8 pixels are no square window"):
        lay_window(torch.randn(2, 8, 5))


@pytest.mark.parametrize(("scale", "status"), [("** 0.5", "passed"), ("", "failed")])
def test_a_class_that_cuts_images_is_judged_by_one_window(
    scale: str, status: str, grade_all: GradeAll
) -> None:
    [record] = grade_all(SOURCE.replace("** 0.5", scale))
    assert (record.name, record.status) == ("WindowAttention", status)
