"""Heads and contexts may have widths of their own, beside that of the tokens."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

LATENT_DIFFUSION = """\
import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim, heads=8, dim_head=64):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def forward(self, x, context):
        b, n, _ = x.shape
        q, k, v = (
            t.view(b, t.shape[1], self.heads, -1).transpose(1, 2)
            for t in (self.to_q(x), self.to_k(context), self.to_v(context))
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).reshape(b, n, -1))
"""
FUSED = """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, d_model, n_heads, d_encoder):
        super().__init__()
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(d_model)
        self.q = nn.Linear(d_model, d_model)
        self.kv = nn.Linear(d_encoder, 2 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, encoded):
        b, n, d = x.shape
        k, v = self.kv(encoded).view(b, -1, 2, self.n_heads, d // self.n_heads).unbind(2)
        q = self.q(self.norm(x)).view(b, n, self.n_heads, -1)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) / (d // self.n_heads) ** 0.5
        read = torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), v).reshape(b, n, d)
        return x + self.out(read)
"""
NAMES = {"query_dim": "dim_q", "context_dim": "dim_kv", "dim_head": "head_dim"}


def rename(source: str) -> str:
    for before, after in NAMES.items():
        source = source.replace(before, after)
    return source


RIGHT = [LATENT_DIFFUSION, rename(LATENT_DIFFUSION), FUSED]


@pytest.mark.sampled("source", RIGHT, RIGHT[::2])
def test_a_context_of_another_width_is_recognised(grade_text: "GradeText", source: str) -> None:
    record = grade_text(source)
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]
    assert any("a context of its own width" in note.message for note in record.notes)


WRONG = [
    (LATENT_DIFFUSION, "self.to_v(context)", "self.to_v(context.flip(1))"),
    (LATENT_DIFFUSION, "q.shape[-1] ** 0.5", "context.shape[-1] ** 0.5"),
    (FUSED, ".softmax(-1)", ".softmax(-2)"),
]


@pytest.mark.sampled(("source", "right", "wrong"), WRONG, WRONG[1:2])
def test_its_mistakes_fail(grade_text: "GradeText", source: str, right: str, wrong: str) -> None:
    record = grade_text(source.replace(right, wrong))
    values = {p.name for p in record.properties if p.status == "failed"}
    assert record.status == "failed" and len(values) > 1


HEADS_OF_ANY_WIDTH = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, n_head, d_model, d_k, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.n_head, self.d_k, self.scale = n_head, d_k, d_k**-0.5
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.fc = nn.Linear(n_head * d_k, d_model)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (
            layer(x).view(b, n, self.n_head, self.d_k).transpose(1, 2)
            for layer in (self.w_qs, self.w_ks, self.w_vs)
        )
        weights = self.dropout((q @ k.mT * self.scale).softmax(-1))
        return self.fc((weights @ v).transpose(1, 2).flatten(2))
"""
OF_THE_MODEL = "self.scale = n_head, d_k, (d_model // n_head) ** -0.5"


def test_heads_are_judged_where_their_width_is_not_a_share_of_the_model(
    grade_text: "GradeText",
) -> None:
    right = grade_text(HEADS_OF_ANY_WIDTH)
    assert right.status == "passed"
    assert "`d_model`, the width of a token" in str(right.notes)
    wrong = grade_text(
        HEADS_OF_ANY_WIDTH.replace("self.scale = n_head, d_k, d_k**-0.5", OF_THE_MODEL)
    )
    assert wrong.status == "failed"
    square = HEADS_OF_ANY_WIDTH.replace(
        "nn.Linear(n_head * d_k, d_model)", "nn.Linear(d_model, d_model)"
    )
    assert "the width of all heads together" in str(grade_text(square).notes)


def test_heads_of_any_width_may_stand_in_a_residual(grade_text: "GradeText") -> None:
    normed = HEADS_OF_ANY_WIDTH.replace(
        "self.fc =", "self.norm = nn.LayerNorm(d_model)\n        self.fc ="
    )
    around = normed.replace("return self.fc", "return x + self.fc").replace(
        "layer(x)", "layer(self.norm(x))"
    )
    assert grade_text(around).status == "passed"
    wrong = around.replace("self.scale = n_head, d_k, d_k**-0.5", OF_THE_MODEL)
    assert grade_text(wrong).status == "failed"


def test_latents_may_read_tokens_of_another_width(grade_text: "GradeText") -> None:
    """As in Perceiver, where `latent_dim` is no width of keys and values."""
    source = LATENT_DIFFUSION.replace("query_dim", "latent_dim").replace("context_dim", "input_dim")
    record = grade_text(source)
    assert record.status == "passed"
    assert "`input_dim`, the width of the tokens that are attended to" in str(record.notes)
