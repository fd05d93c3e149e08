"""The direct oracle against loops over Python floats, against torch, and against calculus."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from headcheck.reference import (
    attention_weights,
    causal_mask,
    causal_weights_by_renormalising,
    padding_mask,
    scaled_dot_product_attention,
    scaled_scores,
)
from tests.reference.drawn import compared

# float64 rounds to 1.1e-16. Logits here stay below some 30, so a weight is right to 1e-14
# relative, and outputs and gradients of the size of 10 are right to some 1e-13.
assert_close = partial(torch.testing.assert_close, rtol=0, atol=2e-12)

BATCH, HEADS, QUERIES, KEYS = 2, 3, 4, 5
BROADCAST_FORMS = [
    (QUERIES, KEYS),
    (1, KEYS),
    (QUERIES, 1),
    (1, 1),
    (1, 1, QUERIES, KEYS),
    (BATCH, 1, QUERIES, KEYS),
    (1, HEADS, QUERIES, KEYS),
    (HEADS, QUERIES, KEYS),
    (BATCH, HEADS, QUERIES, KEYS),
    (BATCH, 1, 1, KEYS),
    (BATCH, HEADS, QUERIES, 1),
]


def tensors(
    seed: int, batch: tuple[int, ...], q: int, k: int, d_k: int, d_v: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value that want a gradient; logits sharp enough to show faults of scale."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*batch, *shape, generator=generator, dtype=torch.float64)

    drawn = 2 * draw(q, d_k), 2 * draw(k, d_k), draw(k, d_v)
    return tuple(t.requires_grad_() for t in drawn)  # type: ignore[return-value]


def gradients(output: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    cotangent = torch.randn(
        output.shape, generator=torch.Generator().manual_seed(1), dtype=output.dtype
    )
    return torch.autograd.grad(output, inputs, cotangent)


def by_loops(
    query: list[list[float]],
    key: list[list[float]],
    value: list[list[float]],
    allowed: list[list[bool]],
    scale: float,
) -> list[list[float]]:
    """Attention on Python floats, one number at a time."""
    output = []
    for q, row in zip(query, allowed, strict=True):
        exponentials = []
        for k, may in zip(key, row, strict=True):
            score = scale * sum(a * b for a, b in zip(q, k, strict=True))
            exponentials.append(math.exp(score) if may else 0.0)
        total = sum(exponentials)
        weights = [e / total if total else 0.0 for e in exponentials]
        columns = zip(*value, strict=True)
        output.append([sum(w * v for w, v in zip(weights, c, strict=True)) for c in columns])
    return output


SHAPES = {
    "q": st.integers(1, 5),
    "k": st.integers(1, 5),
    "d_k": st.integers(1, 4),
    "d_v": st.integers(1, 3),
}


@compared
@given(seed=st.integers(0, 999), density=st.sampled_from([0.0, 0.3, 0.7, 1.0]), **SHAPES)
def test_it_equals_a_triple_loop_over_floats(
    seed: int, density: float, q: int, k: int, d_k: int, d_v: int
) -> None:
    query, key, value = tensors(seed, (), q, k, d_k, d_v)
    mask = torch.rand(q, k, generator=torch.Generator().manual_seed(seed)) < density
    output = scaled_dot_product_attention(query, key, value, mask)
    expected = by_loops(query.tolist(), key.tolist(), value.tolist(), mask.tolist(), d_k**-0.5)
    assert_close(output, torch.tensor(expected, dtype=torch.float64))


@compared
@given(
    seed=st.integers(0, 999),
    batch=st.sampled_from([(), (1,), (3,), (2, 3)]),
    scale=st.sampled_from([None, 1.0, 0.3, -0.5, 0.0]),
    **SHAPES,
)
def test_it_equals_torch_without_a_mask(
    seed: int, batch: tuple[int, ...], scale: float | None, q: int, k: int, d_k: int, d_v: int
) -> None:
    inputs = tensors(seed, batch, q, k, d_k, d_v)
    ours = scaled_dot_product_attention(*inputs, scale=scale)
    theirs = F.scaled_dot_product_attention(*inputs, scale=scale)
    assert_close(ours, theirs)
    assert_close(gradients(ours, inputs), gradients(theirs, inputs))


@pytest.mark.parametrize("density", [0.3, 0.8])
@pytest.mark.parametrize("shape", BROADCAST_FORMS)
def test_it_equals_torch_under_every_form_of_mask(shape: tuple[int, ...], density: float) -> None:
    inputs = tensors(0, (BATCH, HEADS), QUERIES, KEYS, 6, 3)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) < density
    ours = scaled_dot_product_attention(*inputs, mask)
    with sdpa_kernel(SDPBackend.MATH):  # it, too, gives zeros where a query sees no key
        theirs = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    assert_close(ours, theirs)
    assert_close(gradients(ours, inputs), gradients(theirs, inputs))


@pytest.mark.parametrize("shape", BROADCAST_FORMS)
def test_a_mask_means_the_same_when_written_out_in_full(shape: tuple[int, ...]) -> None:
    query, key, _ = tensors(0, (BATCH, HEADS), QUERIES, KEYS, 6, 3)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.6
    full = mask.expand(BATCH, HEADS, QUERIES, KEYS).clone()
    assert torch.equal(attention_weights(query, key, mask), attention_weights(query, key, full))


def test_causal_equals_torchs_causal() -> None:
    query, key, value = tensors(4, (2, 3), 7, 7, 5, 4)
    ours = scaled_dot_product_attention(query, key, value, causal_mask(7))
    assert_close(ours, F.scaled_dot_product_attention(query, key, value, is_causal=True))


def test_scores_are_scaled_dot_products() -> None:
    query = torch.tensor([[1.0, 0, 0, 0], [0, 2, 0, 0]])
    key = torch.tensor([[3.0, 5, 0, 0]])
    assert scaled_scores(query, key).tolist() == [[1.5], [5.0]]  # 1/√4
    assert scaled_scores(query, key, scale=1.0).tolist() == [[3.0], [10.0]]


def test_weights_are_a_share_of_one_among_the_permitted_keys() -> None:
    query, key, _ = tensors(5, (2, 3), 6, 6, 4, 1)
    mask = padding_mask([4, 6], 6) & causal_mask(6)
    weights = attention_weights(query, key, mask)
    assert (weights >= 0).all()
    assert (weights.masked_select(~mask) == 0).all()
    assert (weights.masked_select(mask) > 0).all()
    assert_close(weights.sum(dim=-1), torch.ones(2, 3, 6, dtype=torch.float64))


def test_odds_of_two_keys_are_the_exponential_of_their_difference() -> None:
    query, key, _ = tensors(6, (), 3, 5, 4, 1)
    scores, weights = scaled_scores(query, key), attention_weights(query, key)
    assert_close(weights.log().diff(dim=-1), scores.diff(dim=-1))


def test_one_token_attends_to_itself() -> None:
    query, key, value = tensors(7, (), 1, 1, 3, 3)
    assert torch.equal(scaled_dot_product_attention(query, key, value, causal_mask(1)), value)


def test_a_query_that_sees_no_key_gets_zeros_and_gives_none() -> None:
    inputs = tensors(8, (2,), 4, 5, 3, 2)
    query, key, value = inputs
    mask = torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(4)) < 0.7
    mask[0, 1] = mask[1] = False
    # Anomaly mode raises on a NaN anywhere on the way back, overwritten or not.
    with torch.autograd.set_detect_anomaly(True):
        weights = attention_weights(query, key, mask)
        output = scaled_dot_product_attention(query, key, value, mask)
        for_query, for_key, for_value = gradients(output, inputs)
    assert (weights[0, 1] == 0).all() and (weights[1] == 0).all()
    assert (output[0, 1] == 0).all() and (output[1] == 0).all()
    assert (for_query[0, 1] == 0).all() and (for_query[1] == 0).all()
    assert (for_key[1] == 0).all() and (for_value[1] == 0).all()
    # Its loss alone reaches nothing at all.
    for gradient in torch.autograd.grad(output_of_row(inputs, mask), inputs):
        assert (gradient == 0).all()


def output_of_row(inputs: tuple[Tensor, ...], mask: Tensor) -> Tensor:
    return scaled_dot_product_attention(*inputs, mask)[0, 1].sum()


def test_no_key_at_all_gives_zeros() -> None:
    inputs = tensors(9, (2,), 3, 0, 4, 2)
    for mask in (None, torch.ones(3, 0, dtype=torch.bool)):
        output = scaled_dot_product_attention(*inputs, mask)
        assert torch.equal(output, torch.zeros(2, 3, 2, dtype=torch.float64))


@pytest.mark.parametrize("hidden", [[], [(0, 0), (2, 1)], [(1, 0), (1, 1), (1, 2), (1, 3)]])
def test_gradients_are_those_of_finite_differences(hidden: list[tuple[int, int]]) -> None:
    inputs = tensors(10, (2,), 3, 4, 2, 2)
    mask = torch.ones(3, 4, dtype=torch.bool)
    for place in hidden:
        mask[place] = False
    attend = partial(scaled_dot_product_attention, may_attend=mask)
    assert torch.autograd.gradcheck(attend, inputs)
    assert torch.autograd.gradgradcheck(attend, inputs)


@pytest.mark.parametrize("size", [1e2, 1e4, 1e8])
def test_huge_logits_choose_the_best_match(size: float) -> None:
    query = torch.tensor([[size, 0.0]], dtype=torch.float64)
    key = torch.tensor([[-1.0, 0], [1, 0], [0.5, 0]], dtype=torch.float64)
    weights = attention_weights(query, key)
    assert_close(weights, torch.tensor([[0.0, 1, 0]], dtype=torch.float64))
    hidden = attention_weights(query, key, torch.tensor([[True, False, True]]))
    assert_close(hidden, torch.tensor([[0.0, 0, 1]], dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_dtype_is_kept(dtype: torch.dtype) -> None:
    query, key, value = (t.detach().to(dtype) for t in tensors(11, (2,), 4, 4, 3, 3))
    output = scaled_dot_product_attention(query, key, value, causal_mask(4))
    assert output.dtype == attention_weights(query, key).dtype == dtype
    assert output.isfinite().all()


def test_inputs_and_mask_are_left_alone() -> None:
    inputs, mask = tensors(12, (), 3, 3, 2, 2), causal_mask(3)
    before = [t.detach().clone() for t in (*inputs, mask)]
    scaled_dot_product_attention(*inputs, mask)
    for old, new in zip(before, (*inputs, mask), strict=True):
        assert torch.equal(old, new)


@compared
@given(seed=st.integers(0, 999), tokens=st.integers(1, 8), d_k=st.integers(1, 4))
def test_renormalising_gives_the_causal_weights(seed: int, tokens: int, d_k: int) -> None:
    query, key, _ = tensors(seed, (), tokens, tokens, d_k, 1)
    ours = causal_weights_by_renormalising(query, key)
    expected = attention_weights(query, key, causal_mask(tokens))
    # Erasing leaves little of a row whose best match lies ahead, but its relative error is small.
    assert_close(ours, expected)
    assert_close(gradients(ours, (query, key)), gradients(expected, (query, key)))


def test_renormalising_loses_the_row_whose_past_underflows() -> None:
    query = torch.tensor([[1e4], [1e4]], dtype=torch.float64)
    key = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    assert causal_weights_by_renormalising(query, key)[0, 0].isnan()
    assert attention_weights(query, key, causal_mask(2))[0, 0] == 1
