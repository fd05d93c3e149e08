"""Positions are counted over visible keys, and a required mask covers the keys of a cache."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

FALLS = """\
import torch
from torch import nn


class Falling(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        powers = torch.arange(1.0, n_heads + 1, dtype=torch.float64)
        self.register_buffer("slopes", 2 ** (-8 * powers / n_heads), persistent=False)

    def forward(self, x, attention_mask, past=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        m = k.shape[2]
        keep = attention_mask[:, None, None, :] != 0
        places = (attention_mask.cumsum(-1) - 1)[:, None, None, :]
        falling = self.slopes.to(x.dtype)[:, None, None] * places.to(x.dtype)
        future = torch.ones(n, m, dtype=torch.bool, device=x.device).triu(1 + m - n)
        scores = q @ k.mT / q.shape[-1] ** 0.5 + falling
        weights = scores.masked_fill(future | ~keep, -torch.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d)), (k, v)
"""


def test_places_may_be_counted_over_the_keys_that_a_mask_shows(grade_text: "GradeText") -> None:
    record = grade_text(FALLS)
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]
    assert {"cache", "mask"} <= {prop.group for prop in record.properties}


WRONG = [
    (".triu(1 + m - n)", ".triu(1)", "cache"),
    ("torch.cat([past[0], k], dim=2)", "torch.cat([k, past[0]], dim=2)", "cache"),
    ("future | ~keep", "future & ~keep", "mask"),
    ("attention_mask.cumsum(-1)", "attention_mask.flip(-1).cumsum(-1)", "values"),
]


@pytest.mark.sampled(("right", "wrong", "group"), WRONG, WRONG[::2])
def test_a_mistake_beside_the_counting_fails(
    grade_text: "GradeText", right: str, wrong: str, group: str
) -> None:
    record = grade_text(FALLS.replace(right, wrong))
    assert group in {p.group for p in record.properties if p.status not in ("passed", "not_tried")}
