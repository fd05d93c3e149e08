"""Gates against the formula, number by number, and the streaming computation."""

import math
from dataclasses import replace

import pytest
import torch

from headcheck.reference import (
    Parameters,
    causal_mask,
    multi_head_attention,
    online_multi_head_attention,
)
from tests.reference.drawn import numbers

HEADS = 3


def make_parameters(width: int = 6, d_in: int = 4) -> Parameters:
    layers = {f"W_{name}": numbers(width, d_in, seed=i) for i, name in enumerate("qkv")}
    gate, output = numbers(width, d_in, seed=7), numbers(width, width, seed=9)
    return Parameters(**layers, W_o=output, b_o=numbers(width, seed=8), W_gate=gate)


def drop_gate(parameters: Parameters) -> Parameters:
    return replace(parameters, W_gate=None)


def test_gates_are_the_formula_one_at_a_time() -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    assert p.W_gate is not None
    result = multi_head_attention(x, p, HEADS, causal_mask(5))
    plain = multi_head_attention(x, drop_gate(p), HEADS, causal_mask(5))
    for b, t, c in torch.cartesian_prod(*map(torch.arange, (2, 5, 6))).tolist():
        asked = sum(a * w for a, w in zip(x[b, t].tolist(), p.W_gate[c].tolist(), strict=True))
        expected = float(plain.context[b, t, c]) / (1 + math.exp(-asked))
        assert float(result.context[b, t, c]) == pytest.approx(expected, rel=1e-12)


def test_a_gate_of_zeros_halves_what_the_heads_give() -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    half = replace(p, W_gate=torch.zeros(6, 4).double())
    plain = multi_head_attention(x, drop_gate(p), HEADS)
    assert torch.equal(multi_head_attention(x, half, HEADS).context, plain.context / 2)


def test_the_gate_is_made_of_the_queries_tokens_where_others_are_attended() -> None:
    x, others, p = numbers(2, 3, 4), numbers(2, 5, 4, seed=3), make_parameters()
    assert p.W_gate is not None
    apart = {"keys_from": others, "values_from": others}
    result = multi_head_attention(x, p, HEADS, **apart)
    plain = multi_head_attention(x, drop_gate(p), HEADS, **apart)
    torch.testing.assert_close(result.context, plain.context * (x @ p.W_gate.mT).sigmoid())


def test_without_a_gate_nothing_is_asked() -> None:
    assert multi_head_attention(numbers(1, 2, 4), drop_gate(make_parameters()), HEADS).gate is None


@pytest.mark.parametrize("times", [1.0, 1e4])
def test_the_streaming_computation_agrees(times: float) -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    assert p.W_gate is not None
    p = replace(p, W_gate=times * p.W_gate)
    for mask in (None, causal_mask(5)):
        exact = multi_head_attention(x, p, HEADS, mask).output
        streamed = online_multi_head_attention(x, p, HEADS, mask, block=2)
        torch.testing.assert_close(streamed, exact, rtol=1e-12, atol=1e-12)
