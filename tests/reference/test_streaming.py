"""The two oracles agree: attention block by block, head by head and token by token."""

import ast
import inspect
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headcheck.reference import (
    KeyValueCache,
    causal_mask,
    multi_head_attention,
    online_attention,
    online_multi_head_attention,
    padding_mask,
    scaled_dot_product_attention,
    sliding_window_mask,
    streaming,
)
from tests.reference.drawn import assert_close, compared, draw, parameters

UNIT = 2.0**-53  # unit roundoff of float64


def inputs(seed: int, *batch: int, q: int, k: int, d_k: int = 3, d_v: int = 2) -> list[Tensor]:
    drawn = [
        2 * draw(seed, *batch, q, d_k),
        2 * draw(seed + 1, *batch, k, d_k),
        draw(seed + 2, *batch, k, d_v),
    ]
    return [t.requires_grad_() for t in drawn]


def allowed(query: Tensor, key: Tensor, value: Tensor) -> float:
    """How far two right algorithms may be apart: a few units of the last place of the result.

    A score S is off by some u·S and an exponential carries that into its weight; summing n
    terms adds √n. The weights share one unit, so the largest value sets the size.
    """
    score = float((query.abs() @ key.abs().mT).amax()) / query.shape[-1] ** 0.5
    growth = score * query.shape[-1] ** 0.5 + key.shape[-2] ** 0.5 + 1
    return UNIT * growth * float(value.abs().amax())


@pytest.mark.parametrize(("q", "k"), [(1, 1), (5, 7), (9, 4), (16, 64)])
@pytest.mark.parametrize("sharpness", [0.1, 1.0, 10.0])
def test_every_block_size_agrees_with_the_direct_oracle_to_the_last_places(
    q: int, k: int, sharpness: float
) -> None:
    query, key, value = (t.detach() for t in inputs(0, 2, 3, q=q, k=k, d_k=8, d_v=5))
    query = sharpness * query
    for mask in (None, draw(3, 2, 1, q, k) > 0, draw(4, q, k) > -1):
        direct = scaled_dot_product_attention(query, key, value, mask)
        for block in range(1, k + 2):
            online = online_attention(query, key, value, mask, block=block)
            assert (online - direct).abs().max() <= allowed(query, key, value), block


@compared
@given(
    seed=st.integers(0, 999),
    batch=st.sampled_from([(), (2,), (2, 3)]),
    q=st.integers(1, 5),
    k=st.integers(1, 6),
    block=st.integers(1, 7),
    scale=st.sampled_from([None, 1.0, -0.5]),
    density=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_gradients_agree_with_the_direct_oracle(
    seed: int,
    batch: tuple[int, ...],
    q: int,
    k: int,
    block: int,
    scale: float | None,
    density: float,
) -> None:
    tensors = inputs(seed, *batch, q=q, k=k)
    mask = torch.rand(q, k, generator=torch.Generator().manual_seed(seed)) < density
    direct = scaled_dot_product_attention(*tensors, mask, scale)
    online = online_attention(*tensors, mask, scale, block)
    assert_close(online, direct)
    cotangent = draw(seed + 3, *direct.shape)
    assert_close(
        torch.autograd.grad(online, tensors, cotangent),
        torch.autograd.grad(direct, tensors, cotangent),
    )


@pytest.mark.parametrize("block", [1, 2, 5])
def test_gradients_are_those_of_finite_differences(block: int) -> None:
    tensors = tuple(inputs(5, 2, q=3, k=4))
    mask = torch.tensor([[True] * 4, [False] * 4, [False, True, False, True]])
    attend = partial(online_attention, may_attend=mask, block=block)
    assert torch.autograd.gradcheck(attend, tensors)
    assert torch.autograd.gradgradcheck(attend, tensors)


@pytest.mark.parametrize("block", [1, 2, 9])
def test_a_query_that_sees_no_key_gets_zeros_and_gives_none(block: int) -> None:
    tensors = inputs(6, 2, q=3, k=4)
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    mask[0, 1] = mask[1] = False
    # Anomaly mode raises on a NaN anywhere on the way back, overwritten or not.
    with torch.autograd.set_detect_anomaly(True):
        output = online_attention(*tensors, mask, block=block)
        for_query, for_key, for_value = torch.autograd.grad(output.sum(), tensors)
    assert (output[0, 1] == 0).all() and (output[1] == 0).all()
    assert (for_query[0, 1] == 0).all() and (for_query[1] == 0).all()
    assert (for_key[1] == 0).all() and (for_value[1] == 0).all()


def test_no_key_at_all_gives_zeros() -> None:
    output = online_attention(*inputs(7, 2, q=3, k=0))
    assert torch.equal(output, torch.zeros(2, 3, 2, dtype=torch.float64))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
@pytest.mark.parametrize("size", [1e4, 1e8])
def test_huge_logits_choose_the_best_match_wherever_it_comes(size: float, order: list[int]) -> None:
    query = torch.tensor([[size]], dtype=torch.float64)
    key = torch.tensor([[-1.0], [0.5], [1.0]], dtype=torch.float64)
    value = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    assert online_attention(query, key[order], value[order]).item() == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_dtype_is_kept(dtype: torch.dtype) -> None:
    query, key, value = (t.detach().to(dtype) for t in inputs(8, q=3, k=3))
    output = online_attention(query, key, value, causal_mask(3))
    assert output.dtype == dtype
    assert output.isfinite().all()


@pytest.mark.parametrize("block", [0, -1])
def test_a_block_of_no_keys_is_refused(block: int) -> None:
    with pytest.raises(ValueError, match=rf"block is {block}; give 1 key per block or more"):
        online_attention(*inputs(9, q=2, k=2), block=block)


@compared
@given(
    seed=st.integers(0, 999),
    batch=st.integers(1, 3),
    tokens=st.integers(1, 6),
    heads=st.integers(1, 3),
    head_dim=st.integers(1, 3),
    d_in=st.integers(1, 4),
    bias=st.booleans(),
    out=st.booleans(),
    form=st.sampled_from(["none", "causal", "window", "padding", "heads", "whole"]),
    block=st.integers(1, 7),
)
def test_head_by_head_agrees_with_all_at_once(
    seed: int,
    batch: int,
    tokens: int,
    heads: int,
    head_dim: int,
    d_in: int,
    bias: bool,
    out: bool,
    form: str,
    block: int,
) -> None:
    p = parameters(seed, d_in, heads * head_dim, bias, out).map(lambda t: t.requires_grad_())
    x = draw(seed + 8, batch, tokens, d_in).requires_grad_()
    mask = {
        "none": None,
        "causal": causal_mask(tokens),
        "window": sliding_window_mask(tokens, 2)[None, None],
        "padding": padding_mask([tokens, 0, 1][:batch], tokens),
        "heads": draw(seed, 1, heads, tokens, tokens) > 0,
        "whole": draw(seed, batch, heads, tokens, tokens) > 0,
    }[form]
    direct = multi_head_attention(x, p, heads, mask).output
    online = online_multi_head_attention(x, p, heads, mask, block)
    assert_close(online, direct)
    wanted, cotangent = [x, *(t for _, t in p.items())], draw(seed + 9, *direct.shape)
    assert_close(
        torch.autograd.grad(online, wanted, cotangent),
        torch.autograd.grad(direct, wanted, cotangent),
    )


@pytest.mark.parametrize("heads", [0, 4])
def test_heads_that_do_not_divide_the_width_are_refused(heads: int) -> None:
    p = parameters(0, 2, 6, bias=False, out=False)
    with pytest.raises(ValueError, match=rf"{heads} heads do not divide d_out=6; choose"):
        online_multi_head_attention(draw(0, 2, 2), p, heads)


# A step appends that many tokens and asks for the newest of them, or takes that many back.
STEPS = st.lists(
    st.tuples(st.just("append"), st.integers(0, 3), st.integers(0, 3))
    | st.tuples(st.just("rewind"), st.integers(0, 4), st.just(0)),
    min_size=1,
    max_size=8,
)


@compared
@given(steps=STEPS, batch=st.sampled_from([(), (2,), (2, 3)]))
def test_any_schedule_of_the_cache_gives_rows_of_causal_attention(
    steps: list[tuple[str, int, int]], batch: tuple[int, ...]
) -> None:
    cache, held, fresh = KeyValueCache(), list[int](), 0
    query, key, value = inputs(30, *batch, q=24, k=24)  # enough for 8 steps of 3
    for step, count, queries in steps:
        if step == "rewind":
            count = min(count, len(held))
            cache.rewind(count)
            held = held[: len(held) - count]
        else:
            new = list(range(fresh, fresh + count))  # never the ones taken back: those are stale
            fresh += count
            cache.append(key[..., new, :], value[..., new, :])
            held += new
        assert len(cache) == len(held)
        if not held:
            continue
        newest = held[len(held) - min(queries + 1, len(held)) :]
        whole = scaled_dot_product_attention(
            query[..., held, :], key[..., held, :], value[..., held, :], causal_mask(len(held))
        )
        assert_close(cache.attend(query[..., newest, :]), whole[..., -len(newest) :, :])


def test_gradients_flow_through_the_cache() -> None:
    tensors = inputs(31, 2, q=5, k=5)
    query, key, value = tensors
    cache, outputs = KeyValueCache(), []
    for part in (slice(0, 2), slice(2, 3), slice(3, 5)):
        cache.append(key[:, part], value[:, part])
        outputs.append(cache.attend(query[:, part], scale=0.7))
    direct = scaled_dot_product_attention(*tensors, causal_mask(5), scale=0.7)
    cotangent = draw(32, *direct.shape)
    assert_close(
        torch.autograd.grad(torch.cat(outputs, dim=1), tensors, cotangent),
        torch.autograd.grad(direct, tensors, cotangent),
    )


def test_the_cache_refuses_queries_of_tokens_it_does_not_hold() -> None:
    query, key, value = inputs(33, q=3, k=2)
    cache = KeyValueCache()
    with pytest.raises(ValueError, match="3 queries but 0 tokens held; append the keys"):
        cache.attend(query)
    cache.append(key, value)
    with pytest.raises(ValueError, match="3 queries but 2 tokens held; append the keys"):
        cache.attend(query)


@pytest.mark.parametrize("n", [-1, 3])
def test_cache_cannot_drop_tokens_it_does_not_hold(n: int) -> None:
    _, key, value = inputs(34, q=1, k=2)
    cache = KeyValueCache()
    cache.append(key, value)
    with pytest.raises(ValueError, match=rf"cannot forget {n} of 2 tokens; give 0 to 2"):
        cache.rewind(n)
    assert len(cache) == 2


def test_the_second_oracle_takes_nothing_from_the_first_but_the_record_of_parameters() -> None:
    imported = [
        alias.name
        for node in ast.walk(ast.parse(inspect.getsource(streaming)))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("headcheck.reference")
        for alias in node.names
    ]
    assert imported == ["Parameters"]
