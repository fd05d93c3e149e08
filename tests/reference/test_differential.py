"""Differential attention against the formula, number by number, and the streaming computation."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headcheck.reference import (
    Parameters,
    causal_mask,
    join_maps,
    multi_head_attention,
    online_multi_head_attention,
    split_heads,
    split_maps,
)
from tests.reference.drawn import numbers

HEADS, WIDTH = 3, 4


def make_parameters(d_in: int = 5) -> Parameters:
    width = HEADS * WIDTH
    layers = {f"W_{name}": numbers(width, d_in, seed=i) for i, name in enumerate("qkv")}
    output = numbers(width, width, seed=9)
    return Parameters(**layers, W_o=output, lambdas=numbers(HEADS, seed=8))


def test_weights_are_the_formula_one_at_a_time() -> None:
    x, p = numbers(2, 5, 5), make_parameters()
    assert p.lambdas is not None
    result = multi_head_attention(x, p, HEADS, causal_mask(5))
    q, k = (split_heads(t, HEADS) for t in result.projected[:2])
    for b, h, i in torch.cartesian_prod(*map(torch.arange, (2, HEADS, 5))).tolist():
        maps = []
        for part in (slice(0, WIDTH // 2), slice(WIDTH // 2, None)):
            products = [float(q[b, h, i, part] @ k[b, h, j, part]) for j in range(i + 1)]
            powers = [math.exp(each / math.sqrt(WIDTH // 2)) for each in products]
            maps.append([power / sum(powers) for power in powers])
        share = float(p.lambdas[h])
        expected = [one - share * other for one, other in zip(*maps, strict=True)]
        assert result.weights[b, h, i].tolist() == pytest.approx(expected + [0.0] * (4 - i))


def test_rows_sum_to_one_minus_lambda_and_weights_may_be_negative() -> None:
    p = make_parameters()
    assert p.lambdas is not None
    result = multi_head_attention(numbers(2, 5, 5), p, HEADS, causal_mask(5))
    sums = (1 - p.lambdas)[:, None].expand(2, HEADS, 5)
    torch.testing.assert_close(result.weights.sum(-1), sums)
    assert result.weights.min() < 0
    assert result.softmaxes.shape == (2, *result.weights.shape)
    assert bool((result.softmaxes >= 0).all())


def test_lambdas_of_zero_leave_attention_with_the_first_halves() -> None:
    p = replace(make_parameters(), lambdas=torch.zeros(HEADS).double())
    x = numbers(2, 5, 5)
    result = multi_head_attention(x, p, HEADS, causal_mask(5))
    q, k = (split_maps(split_heads(t, HEADS))[0] for t in result.projected[:2])
    scores = (q @ k.mT / (WIDTH / 2) ** 0.5).masked_fill(~causal_mask(5), -math.inf)
    torch.testing.assert_close(result.weights, scores.softmax(-1))
    plain = replace(p, lambdas=None)
    assert multi_head_attention(x, plain, HEADS).maps is None


def test_halves_are_laid_side_by_side_again() -> None:
    t = numbers(2, 3, 6)
    assert torch.equal(join_maps(split_maps(t)), t)
    with pytest.raises(ValueError, match="has no halves; make it even"):
        split_maps(numbers(2, 3))


@pytest.mark.parametrize("block", [1, 2, 7])
def test_the_streaming_computation_agrees(block: int) -> None:
    x, p = numbers(2, 5, 5), make_parameters()
    for mask in (None, causal_mask(5)):
        exact = multi_head_attention(x, p, HEADS, mask).output
        streamed = online_multi_head_attention(x, p, HEADS, mask, block=block)
        torch.testing.assert_close(streamed, exact, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_differences() -> None:
    p, x = make_parameters(), numbers(1, 3, 5)

    def attend(lambdas: Tensor, w_q: Tensor) -> Tensor:
        changed = replace(p, lambdas=lambdas, W_q=w_q)
        return multi_head_attention(x, changed, HEADS, causal_mask(3)).output

    assert p.lambdas is not None
    given = p.lambdas.clone().requires_grad_(), p.W_q.clone().requires_grad_()
    assert torch.autograd.gradcheck(attend, given)
