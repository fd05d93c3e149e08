"""Right code in forms that were accused, or not recognised, once; each with a mistake."""

from typing import TYPE_CHECKING

import pytest

from headcheck.exercises import BY_SLUG

if TYPE_CHECKING:
    from tests.grader.conftest import GradeAll, GradeText

BATCHED = BY_SLUG["self_attention_v2"].solution.replace("keys.T", "keys.transpose(1, 2)")
CAPPED = """\
import math
from dataclasses import dataclass, field
import torch
from torch import nn


@dataclass
class AttnConfig:
    width: int = 64
    heads: int = 4
    attn_softcap: float = 30.0
    eps: float = 1e-6
    scale: float = field(init=False)

    def __post_init__(self):
        self.scale = 1.0 / math.sqrt(self.width // self.heads)


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.w, self.eps = nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1 + self.w)


class CappedAttention(nn.Module):
    def __init__(self, cfg: AttnConfig, layer: int):
        super().__init__()
        self.cfg = cfg
        self.pre_norm, self.post_norm = (RMSNorm(cfg.width, cfg.eps) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(cfg.width, cfg.width) for _ in range(4))

    def forward(self, x):
        c, h = self.cfg, self.pre_norm(x)
        q, k, v = (
            layer(h).unflatten(-1, (c.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        scores = q @ k.mT * c.scale
        scores = c.attn_softcap * torch.tanh(scores / c.attn_softcap)
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return x + self.post_norm(self.o(y))
"""
FEATURES = """\
import torch
import torch.nn.functional as F


def linear_attention(q, k, v):
    Q, K = F.elu(q) + 1, F.elu(k) + 1
    sums = torch.einsum("nlhd,nhd->nlh", Q, K.sum(dim=1)) + 1e-6
    return torch.einsum("nlhd,nhmd,nlh->nlhm", Q, torch.einsum("nshd,nshm->nhmd", K, v), 1 / sums)
"""
BIASED = """\
import torch
from torch import nn


class DecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, position_bias):
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        scores = q @ k.mT + position_bias
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""

GATED = """\
import torch
from torch import nn


class GatedAttention(nn.Module):
    def __init__(self, hidden, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.o_proj = nn.Linear(hidden, 2 * hidden, False), nn.Linear(hidden, hidden)
        self.k_proj, self.v_proj = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)

    def forward(self, x):
        q, gate = self.q_proj(x).unflatten(-1, (self.n_heads, -1)).chunk(2, dim=-1)
        k, v = (
            layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for layer in (self.k_proj, self.v_proj)
        )
        weights = (q.transpose(1, 2) @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        out = (weights @ v).transpose(1, 2).flatten(2)
        return self.o_proj(out * gate.flatten(2).sigmoid())
"""
LONE = """\
import torch
from torch import nn


class RawAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.W = nn.Parameter(torch.randn(3 * d_model, d_model))
        self.b = nn.Parameter(torch.zeros(3 * d_model))
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in nn.functional.linear(x, self.W, self.b).chunk(3, -1)
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))
"""

TURNED = """\
import torch
from torch import nn


class TurnedAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            layer(x).view(b, t, self.heads, d // self.heads).permute(0, 2, 1, 3)
            for layer in (self.q, self.k, self.v)
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).permute(0, 2, 1, 3).reshape(b, t, d))
"""


FORMS = {
    "a batch": (BATCHED, "keys.shape[-1]", "keys.shape[1]"),
    "a batch for a kernel": (
        BATCHED.replace("queries @ keys.transpose(1, 2)", "torch.bmm(queries, keys.mT)"),
        " / keys.shape[-1] ** 0.5",
        "",
    ),
    "computed fields": (CAPPED, "c.attn_softcap * torch.tanh", "torch.tanh"),
    "one feature": (FEATURES, "F.elu(k) + 1", "F.elu(k)"),
    "a position bias": (BIASED, "scores.softmax(-1)", "scores.softmax(-2)"),
    "a gate beside queries": (GATED, " / q.shape[-1] ** 0.5", ""),
    "a bias of no layer": (LONE, " / q.shape[-1] ** 0.5", ""),
}


@pytest.mark.sampled("form", FORMS, list(FORMS)[1::4])
def test_it_is_right_and_its_mistake_is_told(grade_text: "GradeText", form: str) -> None:
    source, old, new = FORMS[form]
    assert old in source
    right, wrong = grade_text(source), grade_text(source.replace(old, new))
    assert (right.exercise, right.status) == ("attention", "passed")
    assert wrong.status == "failed"


SLOPES = """\
import torch
from torch import nn


def make_slopes(n_heads):
    ratio = 2.0 ** (-8.0 / n_heads)
    return torch.tensor([ratio ** h for h in range(n_heads)])


class ALiBiAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        pos = torch.arange(max_len)
        distance = (pos[:, None] - pos[None, :]).clamp(min=0)
        self.register_buffer("alibi", -make_slopes(n_heads)[:, None, None] * distance)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5 + self.alibi[:, :t, :t]
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))
"""


def test_a_tensor_made_of_numbers_is_among_the_lines(grade_text: "GradeText") -> None:
    record = grade_text(SLOPES)
    assert [each.name for each in record.diagnosis] == ["slopes_counted_from_zero"]
    assert record.place is not None
    assert {6, 7} <= {each.line for each in record.place.lines}


@pytest.mark.whole
def test_a_class_that_says_which_axis_is_the_batch_must_not_attend_over_it(
    grade_text: "GradeText",
) -> None:
    over_batch = TURNED.replace("permute(0, 2, 1, 3)", "permute(1, 2, 0, 3)", 1)
    over_batch = over_batch.replace("permute(0, 2, 1, 3)", "permute(2, 0, 1, 3)")
    assert grade_text(TURNED).status == "passed"
    assert grade_text(over_batch).status == "failed"
    unsaid = over_batch.replace("b, t, d = x.shape", "t, b, d = x.shape")
    assert grade_text(unsaid.replace("(b, t,", "(t, b,")).status == "passed"


SCALED = """\
import torch
from torch import nn


class ScaledDotProduct(nn.Module):
    def __init__(self, {argument}, attn_dropout=0.1):
        super().__init__()
        self.by, self.dropout = {argument}, nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        scores = torch.bmm(q, k.transpose(1, 2)) {operator} self.by
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=2))
        return torch.bmm(weights, v), weights
"""


@pytest.mark.parametrize(
    ("argument", "operator"),
    [
        ("temperature", "/"),
        pytest.param("scale", "*", marks=pytest.mark.whole),
        ("scale", "/"),
    ],
)
def test_a_class_may_be_given_what_scores_are_scaled_by(
    argument: str, operator: str, grade_text: "GradeText"
) -> None:
    source = SCALED.format(argument=argument, operator=operator)
    assert grade_text(source).status == "passed"
    assert grade_text(source.replace("dim=2", "dim=1")).status == "failed"


MORE_LAYERS = (
    BY_SLUG["multi_head_wrapper"]
    .solution.replace(
        "        self.heads",
        "        self.mix = nn.Linear(d_out * num_heads, d_out * num_heads)\n        self.heads",
    )
    .replace(
        "return torch.cat([head(x) for head in self.heads], dim=-1)",
        "return self.mix(torch.cat([head(x) for head in self.heads], dim=-1))",
    )
)


def test_a_class_with_an_exercise_s_name_and_more_layers_is_judged_by_itself(
    grade_all: "GradeAll",
) -> None:
    assert MORE_LAYERS.count("self.mix") == 2
    record = next(r for r in grade_all(MORE_LAYERS) if r.name == "MultiHeadAttentionWrapper")
    assert (record.exercise, record.status) == ("attention", "passed")
    assert "it is named as in `multi_head_wrapper`" in str(record.notes)


@pytest.mark.whole
def test_if_it_is_wrong_it_is_judged_by_the_exercise(grade_all: "GradeAll") -> None:
    wrong = MORE_LAYERS.replace("self.mix(torch.cat", "self.mix(-torch.cat")
    record = next(r for r in grade_all(wrong) if r.name == "MultiHeadAttentionWrapper")
    assert (record.exercise, record.status) == ("multi_head_wrapper", "failed")
