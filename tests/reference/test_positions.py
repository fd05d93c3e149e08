"""Positions and limits against computations of another kind: complex numbers, loops, formulas."""

import cmath
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headcheck.reference import (
    PLAIN,
    Parameters,
    Variant,
    alibi_bias,
    alibi_slopes,
    multi_head_attention,
    rotary_angles,
    swap_halves,
)
from tests.reference.drawn import numbers

ROTARY = Variant(rotary=True)


def turn_by_complex_numbers(t: Tensor, base: float) -> list[list[float]]:
    """Multiply the complex number of every pair by e^(i m base^(-2i/d)), one at a time."""
    half = t.shape[-1] // 2
    rows = []
    for m, row in enumerate(t.tolist()):
        pairs = [
            complex(row[i], row[i + half]) * cmath.exp(1j * m * base ** (-2 * i / (2 * half)))
            for i in range(half)
        ]
        rows.append([p.real for p in pairs] + [p.imag for p in pairs])
    return rows


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize(("tokens", "head_dim"), [(1, 2), (7, 4), (300, 6), (5, 64)])
def test_turning_multiplies_complex_numbers(tokens: int, head_dim: int, base: float) -> None:
    t = numbers(tokens, head_dim)
    expected = torch.tensor(turn_by_complex_numbers(t, base), dtype=torch.float64)
    torch.testing.assert_close(Variant(rotary=True, base=base).place(t), expected)


def test_turning_keeps_lengths_and_the_first_token() -> None:
    t = numbers(2, 3, 9, 8)
    turned = ROTARY.place(t)
    torch.testing.assert_close(turned.norm(dim=-1), t.norm(dim=-1))
    assert torch.equal(turned[..., 0, :], t[..., 0, :])
    assert not torch.allclose(turned[..., 1, :], t[..., 1, :])


def test_products_depend_on_the_distance_alone() -> None:
    q, k = numbers(6, seed=1).expand(12, 6), numbers(6, seed=2).expand(12, 6)
    scores = ROTARY.place(q) @ ROTARY.place(k).mT
    for distance in range(-11, 12):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert not torch.allclose(scores[3, 0], scores[0, 3])


def test_tokens_may_stand_elsewhere() -> None:
    q = numbers(2, 3, 5, 8)
    anew = replace(ROTARY, positions=(0, 1, 0, 1, 2)).place(q)
    torch.testing.assert_close(anew[..., :2, :], ROTARY.place(q[..., :2, :]))
    torch.testing.assert_close(anew[..., 2:, :], ROTARY.place(q[..., 2:, :]))
    assert torch.equal(replace(ROTARY, positions=tuple(range(5))).place(q), ROTARY.place(q))


def test_the_pairs_are_halves() -> None:
    assert swap_halves(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [-3, -4, 1, 2]


@pytest.mark.parametrize("head_dim", [1, 3, 7])
def test_a_head_of_odd_width_has_no_pairs(head_dim: int) -> None:
    with pytest.raises(ValueError, match="has no pairs; make it even"):
        rotary_angles(4, head_dim, 10_000.0, numbers(1))
    with pytest.raises(ValueError, match="has no pairs; make it even"):
        ROTARY.place(numbers(4, head_dim))


# --------------------------------------------------------------------------------------- alibi


def test_slopes_are_those_of_the_paper_for_eight_and_sixteen_heads() -> None:
    assert alibi_slopes(8, numbers(1)).tolist() == [2.0**-h for h in range(1, 9)]
    sixteen = [2 ** (-h / 2) for h in range(1, 17)]
    torch.testing.assert_close(alibi_slopes(16, numbers(1)).tolist(), sixteen)


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12])
def test_alibi_subtracts_slope_times_distance(heads: int) -> None:
    scores = numbers(2, heads, 6, 6)
    adjusted = Variant(alibi=True).adjust(scores)
    for h in range(heads):
        for i in range(6):
            for j in range(i + 1):
                slope = 2 ** (-8 * (h + 1) / heads)
                expected = scores[:, h, i, j] - slope * (i - j)
                torch.testing.assert_close(adjusted[:, h, i, j], expected)


def test_the_last_queries_are_those_that_a_longer_sequence_has() -> None:
    whole = alibi_bias(numbers(1, 3, 7, 7))
    assert torch.equal(alibi_bias(numbers(1, 3, 2, 7)), whole[:, -2:])


# ------------------------------------------------------------------------------------- softcap


@pytest.mark.parametrize("softcap", [0.5, 2.0, 50.0])
def test_softcap_is_the_formula(softcap: float) -> None:
    scores = numbers(2, 3, 4, 4) * 10
    limited = Variant(softcap=softcap).adjust(scores)
    for got, score in zip(limited.flatten().tolist(), scores.flatten().tolist(), strict=True):
        assert got == pytest.approx(softcap * math.tanh(score / softcap), rel=1e-13)
    assert float(limited.abs().max()) <= softcap


def test_distances_are_subtracted_before_scores_are_limited() -> None:
    scores = numbers(1, 2, 5, 5)
    both = Variant(alibi=True, softcap=1.5).adjust(scores)
    torch.testing.assert_close(both, 1.5 * torch.tanh((scores + alibi_bias(scores)) / 1.5))


# ------------------------------------------------------------------------------ all of attention


@pytest.mark.parametrize(
    "variant", [ROTARY, Variant(alibi=True), Variant(softcap=2.0)], ids=["rotary", "alibi", "cap"]
)
def test_attention_has_the_steps_in_their_order(variant: Variant) -> None:
    x, w_q, w_k, w_v = numbers(2, 5, 3), *(numbers(8, 3, seed=s) for s in (1, 2, 3))
    seen = torch.ones(5, 5, dtype=torch.bool).tril()
    got = multi_head_attention(x, Parameters(w_q, w_k, w_v), 2, seen, variant=variant)
    for h in range(2):
        rows = slice(4 * h, 4 * h + 4)
        q, k, v = (x @ w[rows].mT for w in (w_q, w_k, w_v))
        if variant.rotary:
            q, k = (
                torch.tensor([turn_by_complex_numbers(s, 1e4) for s in t], dtype=torch.float64)
                for t in (q, k)
            )
        scores = q @ k.mT / 2
        if variant.alibi:
            position = torch.arange(5)
            scores = scores - 16.0 ** -(h + 1) * (position[:, None] - position)
        if variant.softcap:
            scores = 2 * torch.tanh(scores / 2)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        torch.testing.assert_close(got.output[..., rows], weights @ v)


def test_the_plain_variant_changes_nothing() -> None:
    t = numbers(2, 3, 5, 5)
    assert PLAIN.place(t) is t and PLAIN.adjust(t) is t
