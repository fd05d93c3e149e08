"""Classes whose names, options or weights say more than an exercise's or a usual class's do."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
"""
BY_HEADS = (
    HEAD
    + """

class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads=2, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (
            nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)
        )
        self.out_proj, self.dropout = nn.Linear(d_out, d_out), nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(context_length, context_length).triu(1))

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (self.split(w(x)) for w in (self.W_query, self.W_key, self.W_value))
        scores = (q @ k.mT / k.shape[-1] ** 0.5).masked_fill(self.mask[:n, :n].bool(), -torch.inf)
        return self.out_proj((self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))
"""
)
NORMED = (
    HEAD
    + """

class RMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.g * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.qn, self.kn = RMS(dim // heads), RMS(dim // heads)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.qn(self.split(self.q(x))), self.kn(self.split(self.k(x))), self.v(x)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.o((weights @ self.split(v)).transpose(1, 2).flatten(2))
"""
)
LINEAR = (
    HEAD
    + """

class LinAttn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, x):
        q, k = F.elu(self.split(self.q(x))) + 1, F.elu(self.split(self.k(x))) + 1
        total = torch.einsum("bhtd,bhte->bhde", k, self.split(self.v(x)))
        given = torch.einsum("bhtd,bhde->bhte", q, total)
        given = given / torch.einsum("bhtd,bhd->bht", q, k.sum(2))[..., None]
        return self.o(given.transpose(1, 2).flatten(2))
"""
)
T5 = (
    HEAD
    + """

class T5Attention(nn.Module):
    def __init__(self, d_model, d_kv, num_heads, has_relative_attention_bias=False):
        super().__init__()
        self.heads, self.has_bias = num_heads, has_relative_attention_bias
        self.q, self.k, self.v = (nn.Linear(d_model, d_kv * num_heads, bias=False) for _ in "qkv")
        self.o = nn.Linear(d_kv * num_heads, d_model, bias=False)
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(32, num_heads)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def bucket(self, far):
        near = far.abs().clamp(min=1)
        large = 8 + (torch.log(near.float() / 8) / torch.log(torch.tensor(16.0)) * 8).long()
        return (far > 0) * 16 + torch.where(far.abs() < 8, far.abs(), large.clamp(max=15))

    def forward(self, x, position_bias=None):
        if position_bias is None:
            if not self.has_bias:
                raise ValueError("needs the bias of the first layer")
            at = torch.arange(x.shape[1])
            position_bias = self.relative_attention_bias(self.bucket(at - at[:, None]))
            position_bias = position_bias.permute(2, 0, 1)[None]
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        weights = (q @ k.mT + position_bias).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))
"""
)
SHARED = BY_HEADS.replace(
    "self.dropout(scores.softmax(-1))",
    "F.dropout(torch.ones(n, n), self.dropout.p, self.training).to(scores) * scores.softmax(-1)",
).replace(
    "Module):\n",
    'Module):\n    """One dropout pattern is shared by all sequences and heads."""\n\n',
)


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (BY_HEADS, ("triu(1)", "triu(2)")),
        (NORMED, ("self.kn(self.split(self.k(x)))", "self.qn(self.split(self.k(x)))")),
        pytest.param(LINEAR, ("k.sum(2)", "k.mean(2)"), marks=pytest.mark.whole),
        (T5, ("far > 0", "far < 0")),
        pytest.param(SHARED, ("triu(1)", "triu(2)"), marks=pytest.mark.whole),
    ],
    ids=["an exercise's name, and heads", "norms", "linear", "an option", "shared dropout"],
)
def test_what_names_and_docstrings_say_is_understood(
    source: str, wrong: tuple[str, str], grade_text: "GradeText"
) -> None:
    record = grade_text(source)
    assert record.status == "passed" and record.max_score > 100
    assert grade_text(source.replace(*wrong)).status in ("failed", "not_tried")
