"""Linear attention against the formula, one weight at a time, and the recurrence."""

import math

import pytest
import torch
from torch import Tensor

from headcheck.reference import (
    Parameters,
    Variant,
    causal_mask,
    elu_features,
    linear_shares,
    merge_heads,
    multi_head_attention,
    recurrent_attention,
)
from tests.reference.drawn import numbers

HEADS = 3
LINEAR = Variant(features=True)


def make_parameters(width: int = 6, d_in: int = 4) -> Parameters:
    return Parameters(**{f"W_{name}": numbers(width, d_in, seed=i) for i, name in enumerate("qkv")})


def test_features_are_positive_and_those_of_the_paper() -> None:
    t = torch.linspace(-20, 20, 41).double()
    torch.testing.assert_close(elu_features(t), torch.nn.functional.elu(t) + 1)
    assert bool((elu_features(numbers(100) * 50) > 0).all())
    assert elu_features(torch.tensor([1000.0, 0.0])).tolist() == [1001.0, 1.0]


def test_weights_are_the_formula_one_at_a_time() -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    result = multi_head_attention(x, p, HEADS, causal_mask(5), 1.0, variant=LINEAR)
    q, k = (t.unflatten(-1, (HEADS, 2)) for t in result.projected[:2])

    def feature(number: float) -> float:
        return number + 1 if number > 0 else math.exp(number)

    for b, h, i in torch.cartesian_prod(*map(torch.arange, (2, HEADS, 5))).tolist():
        asked = [feature(float(each)) for each in q[b, i, h]]
        products = [
            sum(f * feature(float(each)) for f, each in zip(asked, k[b, j, h], strict=True))
            for j in range(i + 1)
        ]
        expected = [each / sum(products) for each in products] + [0.0] * (4 - i)
        assert result.weights[b, h, i].tolist() == pytest.approx(expected, rel=1e-12)


def test_shares_are_those_of_the_permitted_keys() -> None:
    products = numbers(2, 4, 4).exp()
    shares = linear_shares(products, causal_mask(4))
    assert not shares.triu(1).any()
    torch.testing.assert_close(shares.sum(-1), torch.ones(2, 4).double())
    everything = products / products.sum(-1, keepdim=True)
    torch.testing.assert_close(linear_shares(products), everything)


@pytest.mark.parametrize("tokens", [1, 2, 9])
def test_the_recurrence_agrees(tokens: int) -> None:
    x, p = numbers(2, tokens, 4), make_parameters()
    result = multi_head_attention(x, p, HEADS, causal_mask(tokens), 1.0, variant=LINEAR)
    asked = recurrent_attention(result.query, result.key, result.value)
    torch.testing.assert_close(merge_heads(asked), result.output, rtol=1e-12, atol=1e-12)


def test_a_factor_of_all_products_cancels() -> None:
    x, p = numbers(1, 5, 4), make_parameters()
    one, other = (
        multi_head_attention(x, p, HEADS, causal_mask(5), scale, variant=LINEAR).output
        for scale in (1.0, 0.3)
    )
    torch.testing.assert_close(one, other)


def test_gradients_are_those_of_differences() -> None:
    x = numbers(1, 3, 4)
    p = make_parameters()

    def attend(w_q: Tensor, w_k: Tensor) -> Tensor:
        given = Parameters(W_q=w_q, W_k=w_k, W_v=p.W_v)
        return multi_head_attention(x, given, HEADS, causal_mask(3), 1.0, variant=LINEAR).output

    given = p.W_q.clone().requires_grad_(), p.W_k.clone().requires_grad_()
    assert torch.autograd.gradcheck(attend, given)
