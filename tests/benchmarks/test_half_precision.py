"""In 16 bits no right algorithm is accused, and a wrong one is, under any seed."""

from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.half_precision import ATTENDED, CLAIMS, RightAnswer, list_answers, make_module
from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violations.violation import Status
from tests.properties.conftest import RIGHT, Algorithm, compute_scores

SEEDS = (0, 3)


def judge(answer: RightAnswer, slug: str, claim: Property, seed: int) -> Verdict:
    exercise = BY_SLUG[slug]
    harness = Harness(make_subject(answer.namespace), exercise.contract)
    return find_first_failure(claim, harness, exercise.plan_cases(seed)[claim])


def judge_algorithm(attend: Algorithm, slug: str, claim: Property, seed: int) -> Verdict:
    return judge(make_module(BY_SLUG[slug], "it", attend), slug, claim, seed)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
@pytest.mark.parametrize("slug", ATTENDED)
def test_no_right_answer_is_accused(slug: str, claim: Property) -> None:
    for answer in list_answers(BY_SLUG[slug]):
        for seed in SEEDS:
            verdict = judge(answer, slug, claim, seed)
            assert verdict.status is not Status.FAILED, f"{answer.name}: {verdict.message}"


def fourth_roots_and_log_sum_exp(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor
) -> Tensor:
    scores = compute_scores(q * scale**0.5, k * scale**0.5, 1.0, mask)
    return torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True)) @ v


def base_two(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    scores = compute_scores(q, k, scale * 1.4426950408889634, mask)
    powers = torch.exp2(scores - scores.amax(-1, keepdim=True))
    return (powers / powers.sum(-1, keepdim=True)) @ v


def running_sums(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    """One key after another, and every sum is rounded to the dtype of the input."""
    scores = compute_scores(q, k, scale, mask)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    total, output = torch.zeros_like(powers[..., :1]), torch.zeros_like(v)
    for n in range(k.shape[-2]):
        total = total + powers[..., n : n + 1]
        output = output + powers[..., n : n + 1] * v[..., n : n + 1, :]
    return output / total


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
@pytest.mark.parametrize("attend", [fourth_roots_and_log_sum_exp, base_two, running_sums])
def test_algorithms_that_are_in_no_bank_are_not_accused(attend: Any, claim: Property) -> None:
    for slug in ATTENDED:
        for seed in range(8):
            verdict = judge_algorithm(attend, slug, claim, seed)
            assert verdict.status is Status.PASSED, f"{slug}, seed {seed}: {verdict.message}"


def rounded(tensor: Tensor, bits: int) -> Tensor:
    """Return a tensor with this many bits in each number, whose gradient is rounded alike."""
    mantissa, exponent = torch.frexp(tensor)
    kept = torch.ldexp(torch.round(torch.ldexp(mantissa.detach(), torch.tensor(bits))), exponent)
    return tensor + (torch.ldexp(kept, torch.tensor(-bits)) - tensor).detach()


def weights_in_fewer_bits(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    bits = 2 if q.dtype is torch.bfloat16 else 5
    return rounded(compute_scores(q, k, scale, mask).softmax(-1), bits) @ v


def scores_in_fewer_bits(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    bits = 3 if q.dtype is torch.bfloat16 else 5
    return compute_scores(rounded(q, bits), rounded(k, bits), scale, mask).softmax(-1) @ v


def detached_weights(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    return compute_scores(q, k, scale, mask).softmax(-1).detach() @ v


WRONG = (weights_in_fewer_bits, scores_in_fewer_bits, detached_weights)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
@pytest.mark.parametrize("attend", WRONG)
def test_fewer_digits_and_missing_gradients_are_found(attend: Any, claim: Property) -> None:
    for slug in ATTENDED:
        for seed in SEEDS:
            verdict = judge_algorithm(attend, slug, claim, seed)
            assert verdict.status is Status.FAILED, f"{slug}, seed {seed}"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_every_algorithm_is_measured(claim: Property) -> None:
    names = {answer.name for answer in list_answers(BY_SLUG["causal_attention"])}
    assert names > RIGHT.keys()


def test_the_message_says_how_inexact_plain_torch_is() -> None:
    verdict = judge_algorithm(detached_weights, "causal_attention", CLAIMS[0], 0)
    assert "expected  an error like those of plain torch, up to 0.0" in verdict.message
