"""What a class does in one mode only, and what it keeps until its mode is set."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

CROSS = """\
import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.kept, self.memory = num_heads, None, None
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def train(self, mode=True):
        self.kept = self.memory = None
        return super().train(mode)

    def project(self, memory):
        if self.training or torch.is_grad_enabled():
            return self.split(self.k(memory)), self.split(self.v(memory))
        if self.kept is None or self.memory is not memory:
            self.kept = self.split(self.k(memory)), self.split(self.v(memory))
            self.memory = memory
        return self.kept

    def forward(self, x, memory):
        (k, v), q = self.project(memory), self.split(self.q(x))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))
"""
POST_NORM = """\
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, attn_p=0.1, proj_p=0.0):
        super().__init__()
        self.num_heads, self.norm = num_heads, nn.LayerNorm(d_model)
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.attn_drop, self.proj_drop = nn.Dropout(attn_p), nn.Dropout(proj_p)

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        weights = self.attn_drop((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1))
        o = self.o((weights @ v).transpose(1, 2).flatten(2))
        return self.norm(x + self.proj_drop(o))
"""
WRONG = {
    "what is kept until the mode is set": (CROSS, " or self.memory is not memory", ""),
    "dropout of scores beside a residual": (
        POST_NORM,
        "self.attn_drop((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1))",
        "self.attn_drop(q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)",
    ),
}


@pytest.mark.parametrize(("source", "right", "wrong"), WRONG.values(), ids=WRONG)
def test_both_are_judged(source: str, right: str, wrong: str, grade_text: "GradeText") -> None:
    assert grade_text(source).status == "passed"
    assert grade_text(source.replace(right, wrong)).status == "failed"
