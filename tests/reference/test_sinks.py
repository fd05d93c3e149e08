"""Sinks against computations of another kind: the formula, a loop, one more key, autograd."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.reference import (
    Parameters,
    causal_mask,
    masked_softmax,
    multi_head_attention,
    online_attention,
    online_multi_head_attention,
    sliding_window_mask,
    softmax_with_sinks,
)
from tests.reference.drawn import numbers

HEADS = 3


def make_parameters(width: int = 6, d_in: int = 4) -> Parameters:
    layers = {f"W_{name}": numbers(width, d_in, seed=i) for i, name in enumerate("qkv")}
    return Parameters(**layers, W_o=numbers(width, width, seed=9), sinks=numbers(HEADS, seed=8))


def test_weights_are_the_formula_one_at_a_time() -> None:
    scores, sinks = numbers(2, HEADS, 5, 5), numbers(HEADS, seed=1)
    weights = softmax_with_sinks(scores, sinks, causal_mask(5))
    for b, h, i in torch.cartesian_prod(*map(torch.arange, (2, HEADS, 5))).tolist():
        powers = [math.exp(scores[b, h, i, j]) for j in range(i + 1)]
        total = sum(powers) + math.exp(sinks[h])
        expected = [p / total for p in powers] + [0.0] * (4 - i) + [math.exp(sinks[h]) / total]
        assert weights[b, h, i].tolist() == pytest.approx(expected, rel=1e-13)


def test_a_sink_of_minus_infinity_is_none() -> None:
    scores, sinks = numbers(1, HEADS, 4, 4), torch.full((HEADS,), -math.inf).double()
    weights = softmax_with_sinks(scores, sinks, causal_mask(4))
    torch.testing.assert_close(weights[..., :-1], masked_softmax(scores, causal_mask(4)))
    assert not weights[..., -1].any()


def test_a_query_that_sees_no_key_gives_all_to_the_sink() -> None:
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    weights = softmax_with_sinks(numbers(HEADS, 2, 2), numbers(HEADS), nothing)
    assert torch.equal(weights, torch.tensor([0.0, 0.0, 1.0]).double().expand(HEADS, 2, 3))


def test_a_constant_added_to_scores_and_sinks_cancels() -> None:
    scores, sinks = numbers(HEADS, 4, 4), numbers(HEADS, seed=1)
    moved = softmax_with_sinks(scores + 64, sinks + 64)
    torch.testing.assert_close(moved, softmax_with_sinks(scores, sinks))


def test_what_is_lost_is_what_the_rows_lack() -> None:
    result = multi_head_attention(numbers(2, 5, 4), make_parameters(), HEADS, causal_mask(5))
    assert result.lost is not None
    torch.testing.assert_close(result.weights.sum(-1, keepdim=True), 1 - result.lost)
    plain = replace(make_parameters(), sinks=None)
    assert multi_head_attention(numbers(2, 5, 4), plain, HEADS).lost is None


def test_sinks_are_one_more_key_with_a_value_of_zero() -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    result = multi_head_attention(x, p, HEADS, causal_mask(5))
    assert p.sinks is not None
    added = torch.zeros(5, 5).double().masked_fill(~causal_mask(5), -math.inf)
    column = p.sinks[:, None, None].expand(HEADS, 5, 1)
    bias = torch.cat([added.expand(HEADS, 5, 5), column], dim=-1).expand(2, -1, -1, -1)
    key, value = (F.pad(t, (0, 0, 0, 1)) for t in (result.key, result.value))
    context = F.scaled_dot_product_attention(result.query, key, value, attn_mask=bias)
    torch.testing.assert_close(context.transpose(1, 2).flatten(2), result.context)


@pytest.mark.parametrize("block", [1, 2, 7])
@pytest.mark.parametrize("low", [0.0, -1e4, 1e4])
def test_the_streaming_computation_agrees(block: int, low: float) -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    assert p.sinks is not None
    p = replace(p, sinks=p.sinks + low)
    for mask in (None, causal_mask(5), sliding_window_mask(5, 2)):
        exact = multi_head_attention(x, p, HEADS, mask).output
        streamed = online_multi_head_attention(x, p, HEADS, mask, block=block)
        torch.testing.assert_close(streamed, exact, rtol=1e-12, atol=1e-12)


def test_the_streaming_computation_has_the_same_gradients() -> None:
    q, k, v = (numbers(4, 3, seed=i) for i in range(3))
    for far in (0.0, 50.0, -50.0):
        sink = torch.tensor([far], dtype=torch.float64, requires_grad=True)
        weights = softmax_with_sinks((q @ k.mT / 3**0.5)[None], sink)[0, :, :-1]
        [exact] = torch.autograd.grad((weights @ v).sum(), sink)
        [got] = torch.autograd.grad(online_attention(q, k, v, sink=sink[0]).sum(), sink)
        torch.testing.assert_close(got, exact)


def test_gradients_are_those_of_differences() -> None:
    sinks = numbers(2, seed=4).requires_grad_()

    def lost(given: Tensor) -> Tensor:
        return softmax_with_sinks(numbers(2, 3, 3), given, causal_mask(3))[..., -1].sum((0, 1))

    assert torch.autograd.gradcheck(lost, (sinks,))
