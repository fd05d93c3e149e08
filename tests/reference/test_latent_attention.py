"""Latent attention against the formula, number by number, and against attention without latents."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headcheck.reference import (
    Parameters,
    Variant,
    append_beside,
    causal_mask,
    multi_head_attention,
    project_beside,
    split_heads,
)
from tests.reference.drawn import numbers

HEADS, WIDTH, LATENT, TURNED = 3, 2, 5, 4
VARIANT = Variant(rotary=True, beside=TURNED)


def make_parameters(d_in: int = 4) -> Parameters:
    return Parameters(
        W_q=numbers(HEADS * WIDTH, d_in, seed=1),
        W_k=numbers(HEADS * WIDTH, LATENT, seed=2),
        W_v=numbers(HEADS * WIDTH, LATENT, seed=3),
        W_down=numbers(LATENT, d_in, seed=4),
        W_qr=numbers(HEADS * TURNED, d_in, seed=5),
        W_kr=numbers(TURNED, d_in, seed=6),
        W_o=numbers(HEADS * WIDTH, HEADS * WIDTH, seed=7),
    )


def turn(pairs: list[float], position: int) -> list[float]:
    half = len(pairs) // 2
    angles = [position * 10_000 ** (-2 * i / len(pairs)) for i in range(half)]
    first = [pairs[i] * math.cos(a) - pairs[i + half] * math.sin(a) for i, a in enumerate(angles)]
    second = [pairs[i + half] * math.cos(a) + pairs[i] * math.sin(a) for i, a in enumerate(angles)]
    return first + second


def attend(x: Tensor, p: Parameters, scale: float | None = None) -> Tensor:
    mask = causal_mask(x.shape[-2])
    return multi_head_attention(x, p, HEADS, mask, scale, variant=VARIANT).output


def test_scores_are_the_formula_one_at_a_time() -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    assert p.W_down is not None and p.W_qr is not None and p.W_kr is not None
    found = multi_head_attention(x, p, HEADS, causal_mask(5), variant=VARIANT).scores
    latent, shared = x @ p.W_down.mT, x @ p.W_kr.mT
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, (2, HEADS, 5, 5))).tolist():
        own, turned = slice(h * WIDTH, (h + 1) * WIDTH), slice(h * TURNED, (h + 1) * TURNED)
        product = float((p.W_q[own] @ x[b, i]) @ (p.W_k[own] @ latent[b, j]))
        query = turn((p.W_qr[turned] @ x[b, i]).tolist(), i)
        key = turn(shared[b, j].tolist(), j)
        product += sum(one * other for one, other in zip(query, key, strict=True))
        expected = product / math.sqrt(WIDTH + TURNED)
        assert float(found[b, h, i, j]) == pytest.approx(expected, rel=1e-12)


def test_queries_may_go_through_the_layer_of_keys_and_averages_through_that_of_values() -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    assert p.W_down is not None and p.W_o is not None
    latent = (x @ p.W_down.mT).unsqueeze(1)
    up, out = (w.unflatten(0, (HEADS, WIDTH)) for w in (p.W_k, p.W_v))
    beside = project_beside(x, p, x)
    nothing = torch.zeros(2, HEADS, 5, 0, dtype=torch.float64)
    query, key = map(VARIANT.place, append_beside(nothing, nothing, beside))
    scores = (split_heads(x @ p.W_q.mT, HEADS) @ up) @ latent.mT + query @ key.mT
    scores = (scores / math.sqrt(WIDTH + TURNED)).masked_fill(~causal_mask(5), -math.inf)
    context = scores.softmax(-1) @ latent @ out.mT
    output = context.transpose(1, 2).flatten(2) @ p.W_o.mT
    torch.testing.assert_close(output, attend(x, p))


def test_without_what_is_turned_it_is_attention_with_layers_multiplied() -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    assert p.W_down is not None and p.W_qr is not None
    still = replace(p, W_qr=torch.zeros_like(p.W_qr))
    plain = Parameters(W_q=p.W_q, W_k=p.W_k @ p.W_down, W_v=p.W_v @ p.W_down, W_o=p.W_o)
    scale = (WIDTH + TURNED) ** -0.5
    expected = multi_head_attention(x, plain, HEADS, causal_mask(5), scale).output
    torch.testing.assert_close(attend(x, still), expected)


def test_only_what_stands_beside_heads_is_turned() -> None:
    t = numbers(5, WIDTH + TURNED)
    placed = VARIANT.place(t)
    assert torch.equal(placed[:, :WIDTH], t[:, :WIDTH])
    torch.testing.assert_close(placed[:, WIDTH:], Variant(rotary=True).place(t[:, WIDTH:]))
    neighbours = replace(VARIANT, neighbours=True).place(t)[:, WIDTH:]
    own = Variant(rotary=True, neighbours=True).place(t[:, WIDTH:])
    torch.testing.assert_close(neighbours, own)


def test_all_heads_have_the_same_turned_key() -> None:
    x, p = numbers(2, 5, 4), make_parameters()
    key = multi_head_attention(x, p, HEADS, variant=VARIANT).key[..., WIDTH:]
    assert torch.equal(key, key[:, :1].expand_as(key))


def test_layers_of_latents_belong_together() -> None:
    with pytest.raises(ValueError, match="belong together; give both or none"):
        replace(make_parameters(), W_qr=None)


def test_gradients_are_those_of_differences() -> None:
    p, x = make_parameters(), numbers(1, 3, 4)

    def change(down: Tensor, turned: Tensor) -> Tensor:
        return attend(x, replace(p, W_down=down, W_kr=turned))

    assert p.W_down is not None and p.W_kr is not None
    given = p.W_down.clone().requires_grad_(), p.W_kr.clone().requires_grad_()
    assert torch.autograd.gradcheck(change, given)
