"""What docstrings say of shared keys, and what functions with named roles compute."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

SHARED = '''\
import torch
from torch import nn


def repeat_kv(t, times):
    """DOC"""
    return t.repeat(1, times, 1, 1)


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, size = heads, kv_heads, dim // heads
        self.wq, self.wo = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wk, self.wv = nn.Linear(dim, kv_heads * size), nn.Linear(dim, kv_heads * size)

    def forward(self, x):
        q = self.wq(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (
            layer(x).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
            for layer in (self.wk, self.wv)
        )
        times = self.heads // self.kv_heads
        k, v = repeat_kv(k, times), repeat_kv(v, times)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.wo((weights @ v).transpose(1, 2).flatten(2))
'''


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Repeat keys and values.", "passed"),
        ("The same as torch.repeat_interleave(t, times, dim=1).", "failed"),
        ("Every head is repeated so many times in a row.", "failed"),
    ],
)
def test_a_docstring_says_which_heads_share(
    grade_text: "GradeText", said: str, status: str
) -> None:
    record = grade_text(SHARED.replace("DOC", said))
    assert record.status == status
    assert ("neighbouring heads should share" in str(record.notes)) is (status == "failed")


ATTEND = """\
import torch


def attend(query, key, value):
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    numbers = (scores - scores.amax(-1, keepdim=True)).exp()
    return numbers / numbers.sum(-1, keepdim=True) @ value
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("amax(-1", "amax(-2", "softmax"),
        ("    scores =", "    query /= 2\n    scores =", "in place"),
        ("numbers.sum(-1, keepdim=True)", "(1 + numbers.sum(-1, keepdim=True))", ""),
    ],
)
def test_a_function_with_named_roles_is_judged_if_it_is_wrong(
    grade_text: "GradeText", old: str, new: str, told: str
) -> None:
    assert grade_text(ATTEND).status == "passed"
    assert grade_text(ATTEND.replace(old, new)).status == "failed"


def test_a_function_of_another_kind_is_not_judged(grade_text: "GradeText") -> None:
    other = ATTEND.replace(" / query.shape[-1] ** 0.5", " + value.sum(-1)[..., None, :]")
    assert grade_text(other).status == "not_tried"
