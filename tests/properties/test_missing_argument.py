"""An argument that the constructor does not take costs the claims about it, and no other."""

from collections.abc import Mapping
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader.grading.attempts import check_all
from headcheck.grader.grading.recording import summarise_status
from headcheck.grader.report.points import award_points, distribute_points
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import check_property
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import Status
from tests.submissions import execute

MULTI_HEAD = BY_SLUG["multi_head_attention"]
SOURCE = """
import torch
from torch import nn

class MultiHeadAttention(nn.Module):
    def __init__(self, {signature}):
        super().__init__()
        assert d_out % num_heads == 0
        {defaults}
        self.heads = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        layers = self.W_query, self.W_key, self.W_value
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in layers)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        hidden = torch.ones_like(scores).triu(1) > 0
        weights = self.dropout(scores.masked_fill(hidden, -torch.inf).softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(-2))
"""
BARE = "d_in, d_out, context_length, num_heads"
LACKING = {
    ("qkv_bias",): ("d_in, d_out, context_length, dropout, num_heads", "qkv_bias = False"),
    ("dropout",): (f"{BARE}, qkv_bias=False", "dropout = 0.0"),
    ("dropout", "qkv_bias"): (BARE, "qkv_bias, dropout = False, 0.0"),
}
ABOUT = {"qkv_bias": {Capability.BIAS, Capability.BIAS_OPTION}, "dropout": {Capability.DROPOUT}}


def namespace_of(signature: str, defaults: str = "pass") -> Mapping[str, Any]:
    return execute(SOURCE.format(signature=signature, defaults=defaults))


def judged(namespace: Mapping[str, Any], exercise: Exercise) -> tuple[Harness, list[Verdict]]:
    harness = Harness(make_subject(namespace), exercise.contract)
    return harness, check_all(
        harness, exercise, lambda c, cases: check_property(c, harness, cases), harness.forget
    )


@pytest.mark.whole
@pytest.mark.sampled("missing", LACKING, [("dropout", "qkv_bias")], ids=" and ".join)
def test_missing_argument_fails_its_properties(missing: tuple[str, ...]) -> None:
    harness, verdicts = judged(namespace_of(*LACKING[missing]), MULTI_HEAD)
    about = {c for c in MULTI_HEAD.properties if any(ABOUT[name] & c.needs for name in missing)}
    broken = {v.property: v for v in verdicts if v.status is not Status.PASSED}
    assert set(broken) == about
    for verdict in broken.values():
        if verdict.blocked_by in broken:
            continue
        assert "got an unexpected keyword argument" in verdict.message
        assert any(f"'{name}'" in verdict.message for name in missing)
    assert [note.kind for note in harness.notes.values()] == ["missing_argument"] * len(missing)
    assert summarise_status(verdicts) is Status.FAILED  # it computes what it should
    worthless = {claim.group for claim in about if claim.essential}
    worth = distribute_points(MULTI_HEAD, None)
    lost = sum(worth[claim] for claim in worth if claim in about or claim.group in worthless)
    assert sum(award_points(MULTI_HEAD, verdicts, None)) == pytest.approx(
        sum(worth.values()) - lost
    )


@pytest.mark.whole
def test_renamed_arguments_are_passed_by_position() -> None:
    signature = "d_in, d_out, context_length, p, num_heads, with_bias=False"
    namespace = namespace_of(signature, "dropout, qkv_bias = p, with_bias")
    harness, verdicts = judged(namespace, MULTI_HEAD)
    assert [v.property.name for v in verdicts if v.status is not Status.PASSED] == []
    assert not harness.notes


def test_known_name_keeps_its_position() -> None:
    """By place, the number of heads would get the rate of dropout here."""
    signature = "d_in, d_out, context_length, num_heads, p, qkv_bias=False"
    _, verdicts = judged(namespace_of(signature, "dropout = p"), MULTI_HEAD)
    assert verdicts[0].status is Status.CRASHED
    assert "unexpected keyword argument 'dropout'" in verdicts[0].message
