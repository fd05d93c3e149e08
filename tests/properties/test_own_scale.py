"""A contract may name a scale of its own; every claim then goes by that one."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties import families
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.check import find_first_failure
from headcheck.properties.families.scale import (
    NOT_SCALED,
    the_scores_are_divided_by_the_root_of_the_head_size,
)
from headcheck.properties.families.values import (
    it_equals_the_streaming_computation,
    it_equals_torch_s_attention,
    it_equals_torch_s_multi_head_attention,
)
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violations.violation import Status
from tests.submissions import load_source

SCALE = 0.3
CONTRACT = replace(BY_SLUG["causal_self_attention"].contract, scale=SCALE)
CASES = generate_case_set(CONTRACT, 8)
CLAIMS = families.select_for_contract(CONTRACT)
COMPARISONS = (
    it_equals_the_streaming_computation,
    it_equals_torch_s_attention,
    it_equals_torch_s_multi_head_attention,
)


LIMIT = "self.softcap = softcap"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ((LIMIT, LIMIT + " * 2"), Status.PASSED),
        ((LIMIT, "self.softcap = 1.0"), Status.PASSED),
        ((" / self.head_dim**0.5", ""), Status.FAILED),
        ((" / self.head_dim**0.5", " / num_heads**0.5"), Status.FAILED),
    ],
)
def test_a_wrong_limit_is_no_wrong_scale(change: tuple[str, str], status: Status) -> None:
    exercise = BY_SLUG["softcap"]
    source = exercise.solution.replace(*change).replace(" / num_heads", " / self.num_heads")
    assert source != exercise.solution
    prop = the_scores_are_divided_by_the_root_of_the_head_size
    harness = load_source(source, exercise.contract)
    assert find_first_failure(prop, harness, exercise.plan_cases()[prop]).status is status


class Scaled(nn.Module):
    """Attention of the exercise causal_self_attention, with a scale of its own."""

    scale = SCALE

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.heads = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        packed = self.c_attn(x).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in packed)
        scores = q @ k.mT * self.scale
        hidden = torch.ones_like(scores).triu(1) > 0
        mixed = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
        output: Tensor = self.c_proj(mixed.transpose(1, 2).flatten(-2))
        return output


class ScaledOtherwise(Scaled):
    scale = 0.31


def judged(claim: Property, answer: type[nn.Module]) -> Verdict:
    harness = Harness(make_subject({CONTRACT.name: answer}), CONTRACT)
    return find_first_failure(claim, harness, claim.select_cases(CONTRACT, CASES))


@pytest.mark.sampled("claim", CLAIMS, CLAIMS[::3], ids=lambda claim: claim.name)
def test_every_property_uses_the_scale_of_the_contract(claim: Property) -> None:
    verdict = judged(claim, Scaled)
    assert (verdict.status, verdict.message) == (Status.PASSED, "")


@pytest.mark.parametrize("claim", COMPARISONS, ids=lambda claim: claim.name)
def test_another_scale_is_seen(claim: Property) -> None:
    assert judged(claim, ScaledOtherwise).status is Status.FAILED


def test_another_scale_is_named_beside_the_one_that_is_asked_for() -> None:
    claim = the_scores_are_divided_by_the_root_of_the_head_size
    verdict = judged(claim, ScaledOtherwise)
    assert verdict.violation is not None
    assert verdict.violation.expected == "scores scaled by 0.3"
    assert verdict.violation.got == "as if scaled by 0.31"


class OverQueries(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        weights = (q @ k.mT * self.scale).softmax(-2)
        output: Tensor = self.c_proj(weights.tril() @ v)
        return output


def test_no_scale_is_named_where_none_explains_the_weights() -> None:
    verdict = judged(the_scores_are_divided_by_the_root_of_the_head_size, OverQueries)
    assert verdict.violation is not None and verdict.violation.got == NOT_SCALED
