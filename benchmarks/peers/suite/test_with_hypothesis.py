"""Twenty properties with Hypothesis as it comes, a hundred examples each, for one submission."""

import math

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from submission import MultiHeadAttention

# As it comes, but for the phase that explains a failure: it traces every line, and a wrong answer
# then takes four times as long.
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
settings.register_profile(
    "course", max_examples=100, deadline=None, derandomize=True, database=None, phases=PHASES
)
settings.load_profile("course")
SIZES = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 3),
        "tokens": st.integers(1, 6),
        "longer": st.integers(0, 3),
        "d_in": st.integers(1, 6),
        "heads": st.integers(1, 4),
        "head_dim": st.integers(1, 4),
        "bias": st.booleans(),
        "seed": st.integers(0, 999),
    }
)


def make_module(sizes, dropout=0.0):
    torch.manual_seed(sizes["seed"])
    module = MultiHeadAttention(
        sizes["d_in"],
        sizes["heads"] * sizes["head_dim"],
        sizes["tokens"] + sizes["longer"],
        dropout,
        sizes["heads"],
        sizes["bias"],
    )
    x = torch.randn(sizes["batch"], sizes["tokens"], sizes["d_in"], dtype=torch.float64)
    return module.double().eval(), x


def compute_equation(module, sizes, x):
    batch, tokens, _ = x.shape
    queries, keys, values = (
        layer(x).reshape(batch, tokens, sizes["heads"], sizes["head_dim"]).transpose(1, 2)
        for layer in (module.W_query, module.W_key, module.W_value)
    )
    scores = queries @ keys.transpose(2, 3) / math.sqrt(sizes["head_dim"])
    is_future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(is_future, -torch.inf).softmax(-1)
    return module.out_proj((weights @ values).transpose(1, 2).flatten(2))


@given(SIZES)
def test_the_output_has_the_right_shape(sizes):
    module, x = make_module(sizes)
    assert module(x).shape == (*x.shape[:2], sizes["heads"] * sizes["head_dim"])


@given(SIZES)
def test_the_dtype_is_kept(sizes):
    module, x = make_module(sizes)
    assert module(x).dtype == torch.float64


@given(SIZES)
def test_the_output_is_finite(sizes):
    module, x = make_module(sizes)
    assert module(x).isfinite().all()


@given(SIZES)
def test_it_equals_the_equation(sizes):
    module, x = make_module(sizes)
    torch.testing.assert_close(module(x), compute_equation(module, sizes, x))


@given(SIZES)
def test_it_equals_the_equation_in_float32(sizes):
    module, x = make_module(sizes)
    exact = compute_equation(module, sizes, x).float()
    torch.testing.assert_close(module.float()(x.float()), exact, atol=1e-4, rtol=1e-4)


@given(SIZES)
def test_the_same_input_gives_the_same_output(sizes):
    module, x = make_module(sizes, dropout=0.5)
    assert torch.equal(module(x), module(x))


@given(SIZES)
def test_the_input_is_left_unchanged(sizes):
    module, x = make_module(sizes)
    before = x.clone()
    module(x)
    assert torch.equal(x, before)


@given(SIZES)
def test_the_weights_are_left_unchanged(sizes):
    module, x = make_module(sizes)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    module(x)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


@given(SIZES)
def test_the_last_token_changes_no_earlier_output(sizes):
    module, x = make_module(sizes)
    other = x.clone()
    other[:, -1] = 1.0
    torch.testing.assert_close(module(x)[:, :-1], module(other)[:, :-1])


@given(SIZES)
def test_a_shorter_sequence_has_the_same_outputs(sizes):
    module, x = make_module(sizes)
    half = (sizes["tokens"] + 1) // 2
    torch.testing.assert_close(module(x)[:, :half], module(x[:, :half]))


@given(SIZES)
def test_sequences_do_not_mix(sizes):
    module, x = make_module(sizes)
    torch.testing.assert_close(module(x)[:1], module(x[:1]))


@given(SIZES)
def test_sequences_in_another_order_give_outputs_in_that_order(sizes):
    module, x = make_module(sizes)
    torch.testing.assert_close(module(x).flip(0), module(x.flip(0)))


@given(SIZES)
def test_the_first_token_sees_only_itself(sizes):
    module, x = make_module(sizes)
    torch.testing.assert_close(module(x)[:, 0], module.out_proj(module.W_value(x[:, 0])))


@given(SIZES)
def test_equal_tokens_have_equal_outputs(sizes):
    module, x = make_module(sizes)
    out = module(x[:, :1].repeat(1, sizes["tokens"], 1))
    torch.testing.assert_close(out, out[:, :1].expand_as(out))


@given(SIZES)
def test_values_that_are_twice_as_large_count_twice(sizes):
    module, x = make_module(sizes)
    with torch.no_grad():
        module.out_proj.bias.zero_()
        before = module(x)
        for tensor in module.W_value.parameters():
            tensor.mul_(2)
    torch.testing.assert_close(module(x), 2 * before)


@given(SIZES)
def test_a_gradient_arrives_at_every_weight(sizes):
    module, x = make_module(sizes)
    module(x).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


@given(SIZES)
def test_no_gradient_comes_from_the_future(sizes):
    module, x = make_module(sizes)
    x.requires_grad_()
    module(x)[:, 0].sum().backward()
    assert not x.grad[:, 1:].any()


@given(SIZES)
def test_without_dropout_training_changes_nothing(sizes):
    module, x = make_module(sizes)
    torch.testing.assert_close(module(x), module.train()(x))


@given(SIZES)
def test_dropout_changes_nothing_in_evaluation(sizes):
    module, x = make_module(sizes, dropout=0.9)
    torch.testing.assert_close(module(x), compute_equation(module, sizes, x))


@given(st.integers(2, 6), st.integers(1, 5), st.integers(1, 5))
def test_heads_must_divide_the_width(heads, times, rest):
    with pytest.raises((AssertionError, ValueError)):
        MultiHeadAttention(3, heads * times + 1 + rest % (heads - 1), 4, 0.0, heads)
