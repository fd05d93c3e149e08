"""Heads that share keys and values, against torch's kernel and a loop; a window, by its pairs."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from headcheck.reference import (
    Parameters,
    Variant,
    causal_mask,
    linear,
    multi_head_attention,
    share_heads,
    sliding_window_mask,
    split_heads,
)
from tests.reference.drawn import assert_close, compared, draw


def parameters(seed: int, d_in: int, d_out: int, d_kv: int, bias: bool = True) -> Parameters:
    rows = (d_out, d_kv, d_kv)
    W = [draw(seed + i, count, d_in) for i, count in enumerate(rows)]
    b = [draw(seed + 3 + i, count) if bias else None for i, count in enumerate(rows)]
    return Parameters(*W, *b, draw(seed + 6, d_out, d_out), draw(seed + 7, d_out))


@compared
@given(
    seed=st.integers(0, 999),
    batch=st.integers(1, 3),
    tokens=st.integers(1, 6),
    kv_heads=st.integers(1, 4),
    group=st.integers(1, 4),
    head_dim=st.integers(1, 4),
    bias=st.booleans(),
)
def test_shared_keys_are_those_of_torchs_kernel(
    seed: int, batch: int, tokens: int, kv_heads: int, group: int, head_dim: int, bias: bool
) -> None:
    heads, d_in = kv_heads * group, 5
    p = parameters(seed, d_in, heads * head_dim, kv_heads * head_dim, bias)
    p = p.map(lambda t: t.requires_grad_())
    x = draw(seed + 8, batch, tokens, d_in).requires_grad_()
    ours = multi_head_attention(x, p, heads, causal_mask(tokens))
    q = split_heads(linear(x, p.W_q, p.b_q), heads)
    k = split_heads(linear(x, p.W_k, p.b_k), kv_heads)
    v = split_heads(linear(x, p.W_v, p.b_v), kv_heads)
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert p.W_o is not None
    theirs = linear(context.transpose(1, 2).flatten(2), p.W_o, p.b_o)
    assert_close(ours.output, theirs)
    cotangent = draw(seed + 9, *theirs.shape)
    leaves = [x, *(t for _, t in p.items())]
    assert_close(
        torch.autograd.grad(ours.output, leaves, cotangent),
        torch.autograd.grad(theirs, leaves, cotangent),
    )


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (6, 3), (4, 1), (3, 3), (1, 1)])
def test_head_h_uses_the_keys_of_its_group(heads: int, kv_heads: int) -> None:
    d, group = 3, heads // kv_heads
    p, x = parameters(7, 5, heads * d, kv_heads * d), draw(30, 2, 4, 5)
    result = multi_head_attention(x, p, heads, causal_mask(4))
    assert p.b_q is not None and p.b_k is not None and p.b_v is not None
    for head in range(heads):
        own = slice(head * d, (head + 1) * d)
        shared = slice(head // group * d, (head // group + 1) * d)
        q = x @ p.W_q[own].mT + p.b_q[own]
        k = x @ p.W_k[shared].mT + p.b_k[shared]
        v = x @ p.W_v[shared].mT + p.b_v[shared]
        scores = (q @ k.mT / math.sqrt(d)).masked_fill(~causal_mask(4), -math.inf)
        assert_close(result.key[:, head], k)
        assert_close(result.value[:, head], v)
        assert_close(result.weights[:, head], scores.softmax(-1))
        assert_close(result.context[..., own], scores.softmax(-1) @ v)


def test_all_heads_may_share_one_and_as_many_as_heads_are_plain() -> None:
    one, x = parameters(8, 5, 12, 3), draw(31, 2, 4, 5)
    assert one.b_k is not None and one.b_v is not None
    repeated = replace(
        one,
        W_k=one.W_k.repeat(4, 1),
        W_v=one.W_v.repeat(4, 1),
        b_k=one.b_k.repeat(4),
        b_v=one.b_v.repeat(4),
    )
    assert_close(
        multi_head_attention(x, one, 4).output, multi_head_attention(x, repeated, 4).output
    )
    t = draw(32, 2, 4, 5, 3)
    assert share_heads(t, 4) is t


@pytest.mark.parametrize("batch", [(), (1,), (2, 3)])
def test_neighbours_share_in_any_number_of_batch_dimensions(batch: tuple[int, ...]) -> None:
    t = draw(33, *batch, 2, 5, 3)
    shared = share_heads(t, 6)
    assert shared.shape == (*batch, 6, 5, 3)
    for head in range(6):
        assert torch.equal(shared[..., head, :, :], t[..., head // 3, :, :])


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 3), (2, 4), (3, 0)])
def test_heads_that_cannot_share_evenly_are_refused(heads: int, kv_heads: int) -> None:
    message = f"{heads} query heads cannot share {kv_heads} key heads evenly; choose"
    with pytest.raises(ValueError, match=message):
        share_heads(torch.zeros(kv_heads, 2, 3), heads)


def test_parameters_that_cannot_be_shared_are_refused() -> None:
    with pytest.raises(ValueError, match="4 query heads cannot share 3 key heads evenly"):
        multi_head_attention(draw(0, 2, 5), parameters(9, 5, 8, 6), 4)
    # A width that is no number of whole heads has another number of dimensions a head.
    with pytest.raises(ValueError, match="2 heads do not divide a width of 5"):
        multi_head_attention(draw(0, 2, 5), parameters(9, 5, 8, 5), 4)


@compared
@given(
    seed=st.integers(0, 999),
    tokens=st.integers(1, 7),
    window=st.integers(1, 9),
    heads=st.integers(1, 3),
)
def test_a_window_is_what_a_loop_over_pairs_sees(
    seed: int, tokens: int, window: int, heads: int
) -> None:
    d = 2
    p, x = parameters(seed, 3, heads * d, heads * d, bias=False), draw(seed + 8, tokens, 3)
    result = multi_head_attention(x, p, heads, sliding_window_mask(tokens, window))
    q, k, v = (split_heads(x @ w.mT, heads) for w in (p.W_q, p.W_k, p.W_v))
    for head in range(heads):
        for i in range(tokens):
            seen = [j for j in range(tokens) if 0 <= i - j < window]
            powers = [math.exp(float(q[head, i] @ k[head, j]) / math.sqrt(d)) for j in seen]
            mixed = sum(
                (power * v[head, j] for power, j in zip(powers, seen, strict=True)),
                start=torch.zeros(d, dtype=torch.float64),
            )
            assert_close(result.context[i, head * d : (head + 1) * d], mixed / sum(powers))


def test_a_plain_variant_leaves_queries_and_scores_alone() -> None:
    t = draw(34, 2, 3, 5, 4)
    assert Variant().place(t) is t
    assert Variant().adjust(t) is t
