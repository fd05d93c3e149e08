"""Rotary positions of models for long sequences are recognised, and others are not mistaken."""

import textwrap

import pytest

from headcheck.properties.binding.binding import NotBound
from headcheck.properties.binding.describe import describe_attention
from headcheck.properties.binding.hypotheses import SCALED_MODELS
from tests.properties.binding.strangers import CAUSAL, PROJECT, bind_source, make, must_bind

TURN = """
import math

def turn(t):
    d = t.shape[-1]
    theta = {base} ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    factor = 1.0
{scale}
    angle = torch.arange(t.shape[-2], dtype=torch.float64)[:, None] * theta
    cos, sin = (factor * angle.cos()).to(t.dtype), (factor * angle.sin()).to(t.dtype)
    a, b = {pairs}
    return {joined}
"""
HALVES = {
    "pairs": "t.chunk(2, -1)",
    "joined": "torch.cat([a * cos - b * sin, b * cos + a * sin], -1)",
}
NEIGHBOURS = {
    "pairs": "t[..., ::2], t[..., 1::2]",
    "joined": "torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)",
}
LINEAR = "theta = theta / {factor:g}"
NTK = "theta = ({base} * {factor:g} ** (d / (d - 2))) ** (-torch.arange(0, d, 2).double() / d)"
LLAMA3 = """
wave = 2 * math.pi / theta
smooth = ({length} / wave - 1) / (4 - 1)
blended = (1 - smooth) * theta / {factor:g} + smooth * theta
slow = torch.where(wave > {length}, theta / {factor:g}, blended)
theta = torch.where(wave < {length} / 4, theta, slow)
"""
YARN = """
low, high = (d * math.log({length} / (2 * math.pi * n)) / (2 * math.log({base})) for n in (32, 1))
low, high = max({down}(low), 0), min({up}(high), d - 1)
ramp = ((torch.arange(d // 2).double() - low) / (high - low or 0.001)).clamp(0, 1)
theta = theta / {factor:g} * ramp + theta * (1 - ramp)
factor = 0.1 * math.log({factor:g}) + 1
"""
SCALES = {"linear": LINEAR, "ntk": NTK, "llama3": LLAMA3, "yarn": YARN}


def write(base: float, scale: str, pairs: dict[str, str] = HALVES) -> str:
    before = TURN.format(base=base, scale=textwrap.indent(scale.strip(), "    "), **pairs)
    project = f"{PROJECT}\nq, k = turn(q), turn(k)"
    return make(before=before, project=project, mask=CAUSAL)


@pytest.mark.parametrize("pairs", [HALVES, NEIGHBOURS], ids=["halves", "neighbours"])
@pytest.mark.parametrize("model", SCALED_MODELS, ids=str)
def test_the_scaling_of_a_model_is_found(model: tuple, pairs: dict[str, str]) -> None:  # type: ignore[type-arg]  # as in the list
    base, scaling = model
    rounding = ("", "") if scaling.truncate is False else ("math.floor", "math.ceil")
    words = {"base": base, "factor": scaling.factor, "length": scaling.original_length}
    words |= dict(zip(("down", "up"), rounding, strict=True))
    found = must_bind(write(base, SCALES[scaling.kind.value].format(**words), pairs)).contract
    assert (found.rotary_base, found.rotary_scaling) == model


def test_plain_positions_stay_plain_and_scaled_ones_are_described() -> None:
    plain = must_bind(write(1e4, "pass")).contract
    assert plain.rotary_scaling is None
    scaled = must_bind(write(5e5, LLAMA3.format(length=8192, factor=8))).contract
    said = describe_attention(scaled)
    assert "rotary positions (in halves, scaled as in Llama 3.1, factor 8)" in said


@pytest.mark.whole
def test_another_factor_is_not_taken_for_that_of_a_model() -> None:
    assert isinstance(bind_source(write(5e5, LLAMA3.format(length=8192, factor=5))), NotBound)
