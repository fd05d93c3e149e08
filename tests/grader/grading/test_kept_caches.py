"""A class keeps keys and values if an option says so, and takes three inputs by two names."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

KEEPS = """\
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_k = nn.Linear(d_model, d_model)
        self.to_v = nn.Linear(d_model, d_model)
        self.to_out = nn.Linear(d_model, d_model)
        self.past = None

    def forget(self):
        self.past = None

    def forward(self, x, use_cache=False):
        b, n, d = x.shape
        q, k, v = (
            layer(x).view(b, n, self.n_heads, -1).transpose(1, 2)
            for layer in (self.to_q, self.to_k, self.to_v)
        )
        if use_cache:
            if self.past is not None:
                k = torch.cat([self.past[0], k], dim=2)
                v = torch.cat([self.past[1], v], dim=2)
            self.past = k, v
        seen = k.shape[2] - n
        future = torch.ones(n, n + seen, dtype=torch.bool, device=x.device).triu(1 + seen)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf)
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
"""
CROSS = """\
import torch
from torch import nn


class Cross(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)

    def forward(self, x, key, value):
        q, k, v = (
            t.view(*t.shape[:2], self.heads, -1).transpose(1, 2)
            for t in (self.q_proj(x), self.k_proj(key), self.v_proj(value))
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(x.shape)
"""


def test_a_cache_that_an_option_keeps_is_judged_and_said(grade_text: "GradeText") -> None:
    record = grade_text(KEEPS)
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]
    assert "cache" in {prop.group for prop in record.properties}
    said = "with `use_cache=True` a call continues the earlier ones, until `forget()` is called"
    assert said in [note.message for note in record.notes]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (".triu(1 + seen)", ".triu(1)"),
        ("self.past = k, v", "self.past = v, k"),
        ("torch.cat([self.past[1], v], dim=2)", "torch.cat([v, self.past[1]], dim=2)"),
    ],
)
def test_a_mistake_of_a_kept_cache_fails(grade_text: "GradeText", right: str, wrong: str) -> None:
    record = grade_text(KEEPS.replace(right, wrong))
    failed = {p.group for p in record.properties if p.status not in ("passed", "not_tried")}
    assert "cache" in failed


def test_what_looks_at_keys_is_the_query_by_any_name(grade_text: "GradeText") -> None:
    assert grade_text(CROSS).status == "passed"
    exchanged = CROSS.replace(
        "self.k_proj(key), self.v_proj(value)", "self.v_proj(value), self.k_proj(key)"
    )
    assert grade_text(exchanged).status == "failed"


@pytest.mark.parametrize(
    ("cap", "status"),
    [("cap * torch.tanh({0} / cap)", "passed"), ("torch.tanh({0} / cap)", "failed")],
)
def test_the_limit_of_scores_is_given_by_its_name(
    grade_text: "GradeText", cap: str, status: str
) -> None:
    """Once it was False, and every score was divided by zero."""
    scores = "(q @ k.mT / q.shape[-1] ** 0.5)"
    source = KEEPS.replace(
        "n_heads):\n", "n_heads, logit_softcap):\n        self.cap = logit_softcap\n"
    )
    source = source.replace(
        "self.cap = logit_softcap\n        super().__init__()\n",
        "super().__init__()\n        self.cap = logit_softcap\n",
    )
    source = source.replace(
        f"scores = {scores}", f"cap = self.cap\n        scores = ({cap.format(scores)})"
    )
    assert grade_text(source).status == status
