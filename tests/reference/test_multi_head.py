"""Multi-head attention against torch's module, a head at a time, and calculus."""

from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from headcheck.reference import (
    Parameters,
    causal_mask,
    merge_heads,
    multi_head_attention,
    padding_mask,
    scaled_dot_product_attention,
    split_heads,
)
from tests.reference.drawn import assert_close, compared, draw, parameters


@compared
@given(
    seed=st.integers(0, 999),
    batch=st.integers(1, 3),
    tokens=st.integers(1, 6),
    heads=st.integers(1, 3),
    head_dim=st.integers(1, 4),
    bias=st.booleans(),
    form=st.sampled_from(["none", "causal", "padding", "whole"]),
)
def test_it_equals_torchs_module_with_the_same_weights(
    seed: int, batch: int, tokens: int, heads: int, head_dim: int, bias: bool, form: str
) -> None:
    width = heads * head_dim
    module = nn.MultiheadAttention(width, heads, bias=bias, batch_first=True, dtype=torch.float64)
    p = parameters(seed, width, width, bias=bias)
    p = p if bias else Parameters(p.W_q, p.W_k, p.W_v, W_o=p.W_o)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([p.W_q, p.W_k, p.W_v]))
        module.out_proj.weight.copy_(p.W_o)
        if bias:
            module.in_proj_bias.copy_(torch.cat([p.b_q, p.b_k, p.b_v]))
            module.out_proj.bias.copy_(p.b_o)
    x = draw(seed + 8, batch, tokens, width)
    mask = {
        "none": torch.ones(1, 1, 1, 1, dtype=torch.bool),
        "causal": causal_mask(tokens),
        "padding": padding_mask([tokens, 1, max(1, tokens - 1)][:batch], tokens),
        "whole": (draw(seed + 9, batch, heads, tokens, tokens) > 0) | causal_mask(tokens),
    }[form]
    blocked = ~mask.expand(batch, heads, tokens, tokens).flatten(0, 1)

    p, x = p.map(lambda t: t.requires_grad_()), x.requires_grad_()
    ours = multi_head_attention(x, p, heads, mask)
    theirs, weights = module(x, x, x, attn_mask=blocked, average_attn_weights=False)
    assert_close(ours.output, theirs)
    assert_close(ours.weights, weights)

    cotangent = draw(seed + 10, *theirs.shape)
    mine = torch.autograd.grad(ours.output, [x, *(t for _, t in p.items())], cotangent)
    by_name = dict(zip(["x", *(name for name, _ in p.items())], mine, strict=True))
    theirs_x, in_proj, out_proj = torch.autograd.grad(
        theirs, [x, module.in_proj_weight, module.out_proj.weight], cotangent, retain_graph=True
    )
    assert_close(by_name["x"], theirs_x)
    assert_close(torch.cat([by_name["W_q"], by_name["W_k"], by_name["W_v"]]), in_proj)
    assert_close(by_name["W_o"], out_proj)
    if bias:
        in_bias, out_bias = torch.autograd.grad(
            theirs, [module.in_proj_bias, module.out_proj.bias], cotangent
        )
        assert_close(torch.cat([by_name["b_q"], by_name["b_k"], by_name["b_v"]]), in_bias)
        assert_close(by_name["b_o"], out_bias)


@pytest.mark.parametrize("out", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_each_head_attends_with_its_own_block_of_rows(bias: bool, out: bool) -> None:
    d_in, heads, head_dim = 5, 3, 2
    p, x = parameters(0, d_in, heads * head_dim, bias, out), draw(20, 2, 4, d_in)
    result = multi_head_attention(x, p, heads, causal_mask(4))
    blocks = []
    for head in range(heads):
        rows = slice(head * head_dim, (head + 1) * head_dim)
        query, key, value = x @ p.W_q[rows].mT, x @ p.W_k[rows].mT, x @ p.W_v[rows].mT
        if p.b_q is not None and p.b_k is not None and p.b_v is not None:
            query, key, value = query + p.b_q[rows], key + p.b_k[rows], value + p.b_v[rows]
        assert_close(result.query[:, head], query)
        assert_close(result.key[:, head], key)
        assert_close(result.value[:, head], value)
        assert_close(result.scores[:, head], query @ key.mT / head_dim**0.5)
        blocks.append(scaled_dot_product_attention(query, key, value, causal_mask(4)))
        assert_close(result.weights[:, head] @ value, blocks[-1])
    context = torch.cat(blocks, dim=-1)
    assert_close(result.context, context)
    expected = context if p.W_o is None else context @ p.W_o.mT + p.b_o
    assert_close(result.output, expected)


def test_one_head_without_output_projection_is_self_attention() -> None:
    p, x = parameters(1, 3, 2, bias=False, out=False), draw(21, 6, 3)
    expected = scaled_dot_product_attention(x @ p.W_q.mT, x @ p.W_k.mT, x @ p.W_v.mT)
    assert_close(multi_head_attention(x, p, heads=1).output, expected)


@pytest.mark.parametrize("batch", [(), (1,), (2, 3), (0,)])
def test_any_number_of_batch_dimensions(batch: tuple[int, ...]) -> None:
    p, x = parameters(2, 3, 4), draw(22, *batch, 5, 3)
    result = multi_head_attention(x, p, 2, causal_mask(5))
    assert result.output.shape == result.context.shape == (*batch, 5, 4)
    assert result.weights.shape == result.scores.shape == (*batch, 2, 5, 5)
    assert result.query.shape == result.key.shape == result.value.shape == (*batch, 2, 5, 2)
    for sequence, output in zip(x.reshape(-1, 5, 3), result.output.reshape(-1, 5, 4), strict=True):
        assert_close(multi_head_attention(sequence, p, 2, causal_mask(5)).output, output)


def test_the_scale_replaces_the_root_of_the_head_size() -> None:
    p, x = parameters(3, 4, 6), draw(23, 4, 4)
    default = multi_head_attention(x, p, 2)
    torch.testing.assert_close(multi_head_attention(x, p, 2, scale=3**-0.5).output, default.output)
    doubled = multi_head_attention(x, p, 2, scale=2 * 3**-0.5)
    assert_close(doubled.scores, 2 * default.scores)
    assert_close(doubled.weights, torch.softmax(2 * default.scores, dim=-1))


def test_a_token_that_sees_nothing_outputs_the_bias_alone() -> None:
    p, x = parameters(4, 3, 4).map(lambda t: t.requires_grad_()), draw(24, 2, 5, 3)
    mask = padding_mask([5, 0], 5) & causal_mask(5)
    with torch.autograd.set_detect_anomaly(True):
        result = multi_head_attention(x.requires_grad_(), p, 2, mask)
        tensors = dict(p.items())
        found = torch.autograd.grad(result.output[1].sum(), [x, *tensors.values()])
    assert p.b_o is not None
    assert torch.equal(result.output[1], p.b_o.expand(5, 4))
    assert (result.weights[1] == 0).all() and (result.context[1] == 0).all()
    for name, gradient in zip(["x", *tensors], found, strict=True):
        assert (gradient == (5 if name == "b_o" else 0)).all(), name


def test_gradients_are_those_of_finite_differences() -> None:
    p, x = parameters(5, 2, 4).map(lambda t: t.requires_grad_()), draw(25, 3, 2).requires_grad_()
    names, tensors = zip(*p.items(), strict=True)

    def output(x: Tensor, *tensors: Tensor) -> Tensor:
        p = Parameters(**dict(zip(names, tensors, strict=True)))
        return multi_head_attention(x, p, 2, causal_mask(3)).output

    assert torch.autograd.gradcheck(output, (x, *tensors))


@compared
@given(
    batch=st.sampled_from([(), (2,), (2, 3)]),
    tokens=st.integers(0, 4),
    heads=st.integers(1, 4),
    head_dim=st.integers(1, 3),
)
def test_heads_are_consecutive_blocks_and_merging_undoes_splitting(
    batch: tuple[int, ...], tokens: int, heads: int, head_dim: int
) -> None:
    t = draw(0, *batch, tokens, heads * head_dim)
    split = split_heads(t, heads)
    assert split.shape == (*batch, heads, tokens, head_dim)
    for head in range(heads):
        block = t[..., head * head_dim : (head + 1) * head_dim]
        assert torch.equal(split[..., head, :, :], block)
    assert torch.equal(merge_heads(split), t)


@pytest.mark.parametrize("heads", [0, -2, 4, 12])
def test_heads_that_do_not_divide_the_width_are_refused(heads: int) -> None:
    message = rf"split_heads: {heads} heads do not divide a width of 6; choose"
    with pytest.raises(ValueError, match=message):
        split_heads(torch.zeros(2, 6), heads)
    with pytest.raises(ValueError, match=message):
        multi_head_attention(draw(0, 2, 3), parameters(0, 3, 6), heads)


def test_items_and_map_skip_what_is_absent() -> None:
    whole, bare = parameters(6, 3, 4), parameters(6, 3, 4, bias=False, out=False)
    names = ["W_q", "W_k", "W_v", "b_q", "b_k", "b_v", "W_o", "b_o"]
    assert [name for name, _ in whole.items()] == names
    assert [name for name, _ in bare.items()] == names[:3]
    doubled = bare.map(lambda t: 2 * t)
    assert torch.equal(doubled.W_k, 2 * bare.W_k)
    assert doubled.b_q is doubled.W_o is doubled.b_o is None
    assert {t.dtype for _, t in whole.map(Tensor.float).items()} == {torch.float32}


def test_parameters_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        parameters(0, 2, 2).W_q = torch.zeros(2, 2)


def test_an_output_bias_without_output_weights_is_refused() -> None:
    W = torch.zeros(2, 2)
    with pytest.raises(ValueError, match="b_o without W_o; give both, or b_o=None"):
        Parameters(W, W, W, b_o=torch.zeros(2))
