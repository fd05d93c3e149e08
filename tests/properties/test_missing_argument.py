"""An argument that the constructor does not take costs the claims about it, and no other."""

from collections.abc import Mapping
from typing import Any

import pytest

from exercises import BY_SLUG, Exercise
from grader.batch.plan import verdicts_on
from grader.grading.grade import overall
from grader.report.points import earned, worth
from grader.sandbox.grader_side.subject import of_namespace
from properties.check import check
from properties.contract import Trait
from properties.harness.harness import Bench
from properties.property import Verdict
from properties.violation import Status

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
LACKING = {
    ("qkv_bias",): ("d_in, d_out, context_length, dropout, num_heads", "qkv_bias = False"),
    ("dropout",): ("d_in, d_out, context_length, num_heads, qkv_bias=False", "dropout = 0.0"),
    ("dropout", "qkv_bias"): (
        "d_in, d_out, context_length, num_heads",
        "qkv_bias, dropout = False, 0.0",
    ),
}
ABOUT = {"qkv_bias": {Trait.BIAS, Trait.BIAS_OPTION}, "dropout": {Trait.DROPOUT}}


def namespace_of(signature: str, defaults: str = "pass") -> Mapping[str, Any]:
    found: dict[str, Any] = {"__name__": "submission"}
    exec(SOURCE.format(signature=signature, defaults=defaults), found)
    return found


def judged(namespace: Mapping[str, Any], exercise: Exercise) -> tuple[Bench, list[Verdict]]:
    bench = Bench(of_namespace(namespace), exercise.contract)
    return bench, verdicts_on(
        bench, exercise, lambda c, cases: check(c, bench, cases), bench.forget
    )


@pytest.mark.parametrize("missing", LACKING, ids=" and ".join)
def test_it_costs_the_claims_about_it(missing: tuple[str, ...]) -> None:
    bench, verdicts = judged(namespace_of(*LACKING[missing]), MULTI_HEAD)
    about = {c for c in MULTI_HEAD.properties if any(ABOUT[name] & c.needs for name in missing)}
    broken = {v.property: v for v in verdicts if v.status is not Status.PASSED}
    assert set(broken) == about
    for verdict in broken.values():
        assert "got an unexpected keyword argument" in verdict.message
        assert any(f"'{name}'" in verdict.message for name in missing)
    assert [note.kind for note in bench.notes.values()] == ["missing_argument"] * len(missing)
    assert overall(verdicts) is Status.CRASHED
    whole = sum(worth(MULTI_HEAD, None).values())
    lost = sum(points for claim, points in worth(MULTI_HEAD, None).items() if claim in about)
    assert sum(earned(MULTI_HEAD, verdicts, None)) == pytest.approx(whole - lost)


def test_who_takes_all_of_them_under_other_names_is_called_by_place() -> None:
    signature = "d_in, d_out, context_length, p, num_heads, with_bias=False"
    namespace = namespace_of(signature, "dropout, qkv_bias = p, with_bias")
    bench, verdicts = judged(namespace, MULTI_HEAD)
    assert [v.property.name for v in verdicts if v.status is not Status.PASSED] == []
    assert not bench.notes


def test_a_name_that_is_known_keeps_its_place() -> None:
    """By place, the number of heads would get the rate of dropout here."""
    signature = "d_in, d_out, context_length, num_heads, p, qkv_bias=False"
    _, verdicts = judged(namespace_of(signature, "dropout = p"), MULTI_HEAD)
    assert verdicts[0].status is Status.CRASHED
    assert "unexpected keyword argument 'dropout'" in verdicts[0].message
