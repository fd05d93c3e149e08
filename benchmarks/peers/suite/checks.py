"""Five ordinary checks of a class MultiHeadAttention, as a course writes them. Used by all peers.

The file is also put into notebooks as a cell, so it stands alone.
"""

import math

import torch

D_IN, D_OUT, CONTEXT_LENGTH, HEADS = 6, 8, 5, 2


def _make_module(cls):
    torch.manual_seed(0)
    return cls(D_IN, D_OUT, CONTEXT_LENGTH, 0.0, HEADS), torch.randn(2, CONTEXT_LENGTH, D_IN)


def it_can_be_constructed(cls):
    module, _ = _make_module(cls)
    assert isinstance(module, torch.nn.Module)


def the_output_has_the_right_shape(cls):
    module, x = _make_module(cls)
    assert module(x).shape == (2, CONTEXT_LENGTH, D_OUT)


def it_equals_the_equation(cls):
    module, x = _make_module(cls)
    queries, keys, values = (
        layer(x).view(2, CONTEXT_LENGTH, HEADS, D_OUT // HEADS).transpose(1, 2)
        for layer in (module.W_query, module.W_key, module.W_value)
    )
    scores = queries @ keys.transpose(2, 3) / math.sqrt(D_OUT // HEADS)
    is_future = torch.ones(CONTEXT_LENGTH, CONTEXT_LENGTH, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(is_future, -torch.inf).softmax(-1)
    merged = (weights @ values).transpose(1, 2).reshape(2, CONTEXT_LENGTH, D_OUT)
    assert torch.allclose(module(x), module.out_proj(merged), atol=1e-5)


def the_future_is_invisible(cls):
    module, x = _make_module(cls)
    other = x.clone()
    other[:, -1] += 1.0
    assert torch.allclose(module(x)[:, :-1], module(other)[:, :-1], atol=1e-6)


def gradients_arrive(cls):
    module, x = _make_module(cls)
    module(x).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


CHECKS = (
    it_can_be_constructed,
    the_output_has_the_right_shape,
    it_equals_the_equation,
    the_future_is_invisible,
    gradients_arrive,
)
