"""A block against the formula, number by number, against torch's layer, and its gradients."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headcheck.reference import (
    BlockSteps,
    Parameters,
    Variant,
    activate,
    causal_mask,
    gelu,
    gelu_by_tanh,
    multi_head_attention,
    transformer_block,
)
from tests.reference.drawn import numbers

HEADS, WIDTH, TOKENS = 2, 6, 5
STEPS = BlockSteps("layer", 1e-5, "gelu")
VARIANT = Variant(block=STEPS)


def make_parameters(width: int = WIDTH) -> Parameters:
    layers = {f"W_{name}": numbers(width, width, seed=i) for i, name in enumerate("qkvo")}
    biases = {f"b_{name}": numbers(width, seed=10 + i) for i, name in enumerate("qkvo")}
    names = ("gain_in", "shift_in", "gain_ff", "shift_ff", "b_2")
    vectors = {name: numbers(width, seed=20 + i) for i, name in enumerate(names)}
    return Parameters(
        **layers,
        **biases,
        **vectors,
        W_1=numbers(4 * width, width, seed=30),
        b_1=numbers(4 * width, seed=31),
        W_2=numbers(width, 4 * width, seed=32),
    )


def compute(
    x: Tensor, p: Parameters, mask: Tensor | None = None, steps: BlockSteps = STEPS
) -> Tensor:
    return transformer_block(x, p, HEADS, mask, variant=Variant(block=steps)).output


def norm(row: list[float], gain: Tensor | None, shift: Tensor | None) -> list[float]:
    assert gain is not None and shift is not None
    mean = sum(row) / len(row)
    size = math.sqrt(sum((a - mean) ** 2 for a in row) / len(row) + 1e-5)
    return [
        (a - mean) / size * g + s
        for a, g, s in zip(row, gain.tolist(), shift.tolist(), strict=True)
    ]


def test_a_block_is_the_formula_one_number_at_a_time() -> None:
    x, p = numbers(2, TOKENS, WIDTH, seed=50), make_parameters()
    assert p.W_1 is not None and p.W_2 is not None and p.b_1 is not None and p.b_2 is not None
    normed = torch.tensor(
        [[norm(row, p.gain_in, p.shift_in) for row in sequence] for sequence in x.tolist()],
        dtype=torch.float64,
    )
    attended = multi_head_attention(normed, p, HEADS, causal_mask(TOKENS)).output
    result = compute(x, p, causal_mask(TOKENS))
    for b, t in torch.cartesian_prod(torch.arange(2), torch.arange(TOKENS)).tolist():
        added = [float(a) for a in x[b, t] + attended[b, t]]
        read = norm(added, p.gain_ff, p.shift_ff)
        hidden = [
            sum(a * w for a, w in zip(read, row, strict=True)) + bias
            for row, bias in zip(p.W_1.tolist(), p.b_1.tolist(), strict=True)
        ]
        active = [z * (1 + math.erf(z / math.sqrt(2))) / 2 for z in hidden]
        for c in range(WIDTH):
            given = sum(a * w for a, w in zip(active, p.W_2[c].tolist(), strict=True))
            expected = added[c] + given + float(p.b_2[c])
            assert float(result[b, t, c]) == pytest.approx(expected, rel=1e-11, abs=1e-11)


def copy_into_torch(p: Parameters) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", norm_first=True, batch_first=True, dtype=torch.float64
    )
    held = {
        "self_attn.in_proj_weight": torch.cat([p.W_q, p.W_k, p.W_v]),
        "self_attn.in_proj_bias": torch.cat([b for b in (p.b_q, p.b_k, p.b_v) if b is not None]),
        "self_attn.out_proj.weight": p.W_o,
        "self_attn.out_proj.bias": p.b_o,
        "norm1.weight": p.gain_in,
        "norm1.bias": p.shift_in,
        "norm2.weight": p.gain_ff,
        "norm2.bias": p.shift_ff,
        "linear1.weight": p.W_1,
        "linear1.bias": p.b_1,
        "linear2.weight": p.W_2,
        "linear2.bias": p.b_2,
    }
    layer.load_state_dict(held)
    return layer


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_torch_s_own_layer_agrees(causal: bool, training: bool) -> None:
    x, p = numbers(3, TOKENS, WIDTH, seed=51), make_parameters()
    layer = copy_into_torch(p).train(training)
    hidden = ~causal_mask(TOKENS) if causal else None
    ours = compute(x, p, causal_mask(TOKENS) if causal else None)
    torch.testing.assert_close(layer(x, src_mask=hidden), ours, rtol=1e-11, atol=1e-11)


def test_torch_s_own_layer_has_the_same_gradients() -> None:
    x, p, cotangent = numbers(2, 4, WIDTH), make_parameters(), numbers(2, 4, WIDTH, seed=9)
    layer, given = copy_into_torch(p), x.clone().requires_grad_()
    layer(given, src_mask=~causal_mask(4)).backward(cotangent)
    leaves = {name: t.clone().requires_grad_() for name, t in p.items()}
    own = x.clone().requires_grad_()
    compute(own, Parameters(**leaves), causal_mask(4)).backward(cotangent)
    torch.testing.assert_close(own.grad, given.grad, rtol=1e-10, atol=1e-10)
    for path, name in (
        ("linear1.weight", "W_1"),
        ("norm2.bias", "shift_ff"),
        ("norm1.weight", "gain_in"),
    ):
        theirs = layer.get_parameter(path).grad
        torch.testing.assert_close(leaves[name].grad, theirs, rtol=1e-10, atol=1e-10)


def test_layers_that_give_nothing_leave_the_tokens() -> None:
    x, p = numbers(2, TOKENS, WIDTH), make_parameters()
    nothing = {n: torch.zeros_like(t) for n, t in p.items() if n in ("W_o", "b_o", "W_2", "b_2")}
    assert torch.equal(compute(x, replace(p, **nothing)), x)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_torch_s(approximate: str) -> None:
    t = torch.linspace(-12, 12, 481, dtype=torch.float64)
    ours = gelu(t) if approximate == "none" else gelu_by_tanh(t)
    steps = replace(STEPS, activation="gelu" if approximate == "none" else "gelu_tanh")
    assert torch.equal(activate(t, steps), ours)
    torch.testing.assert_close(ours, F.gelu(t, approximate=approximate), rtol=1e-12, atol=1e-15)


def test_the_norm_of_a_block_may_be_that_of_the_root_mean_square() -> None:
    x, p = numbers(2, TOKENS, WIDTH), replace(make_parameters(), shift_in=None, shift_ff=None)
    result = transformer_block(x, p, HEADS, variant=Variant(block=replace(STEPS, norm="rms")))
    for given, gain, got in (
        (x, p.gain_in, result.entered),
        (result.added, p.gain_ff, result.normed),
    ):
        torch.testing.assert_close(
            got, F.rms_norm(given, (WIDTH,), gain, 1e-5), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("change", [{"W_1": None, "b_1": None, "W_2": None}, {}])
def test_a_block_without_its_parts_is_refused(change: dict[str, None]) -> None:
    x, p = numbers(1, 2, WIDTH), replace(make_parameters(), **change)
    with pytest.raises(ValueError, match="give W_1, W_2 and a variant with a block"):
        transformer_block(x, p, HEADS, variant=VARIANT if change else Variant())


def test_one_layer_of_the_feed_forward_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="W_1 and W_2 belong together"):
        replace(make_parameters(), W_2=None)
