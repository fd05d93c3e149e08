"""Scaled rotary frequencies against the formulas of models, written out number by number."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headcheck.reference import RotaryScaling, Variant, rotary_angles

BASES = (100.0, 10_000.0, 500_000.0)
WIDTHS = (2, 4, 6, 8, 16, 128)
T = torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
YARN = RotaryScaling("yarn", 8.0, 64, 32, 1, 1.2)
LLAMA3 = RotaryScaling("llama3", 8.0, 96, 4, 1)


def scale(scaling: RotaryScaling, width: int, base: float) -> Tensor:
    """The second row of the table of angles: those of position 1."""
    like = torch.zeros((), dtype=torch.float64)
    return rotary_angles(2, width, base, like, scaling)[1]


def apply_llama3(width: int, base: float, factor: float, length: float) -> list[float]:
    """The function `apply_scaling` of Llama 3.1, with its low factor of 1 and high factor of 4."""
    scaled = []
    for frequency in (base ** (-2 * i / width) for i in range(width // 2)):
        wavelength = 2 * math.pi / frequency
        if wavelength < length / 4:
            scaled.append(frequency)
        elif wavelength > length / 1:
            scaled.append(frequency / factor)
        else:
            smooth = (length / wavelength - 1) / (4 - 1)
            scaled.append((1 - smooth) * frequency / factor + smooth * frequency)
    return scaled


def apply_yarn(
    width: int, base: float, factor: float, length: float, *, truncate: bool
) -> list[float]:
    """The inverse frequencies of YaRN's authors, with beta_fast 32 and beta_slow 1."""
    ends = [
        width * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (32, 1)
    ]
    low, high = (math.floor(ends[0]), math.ceil(ends[1])) if truncate else ends
    low, high = max(low, 0), min(high, width - 1)
    high += 0.001 * (low == high)
    scaled = []
    for i in range(width // 2):
        ramp, period = min(1, max(0, (i - low) / (high - low))), base ** (2 * i / width)
        scaled.append(1 / (factor * period) * ramp + 1 / period * (1 - ramp))
    return scaled


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_linear_scaling_divides_positions(width: int, base: float) -> None:
    like = torch.zeros((), dtype=torch.float64)
    scaled = rotary_angles(9, width, base, like, RotaryScaling("linear", 4.0))
    assert_close(scaled[8], rotary_angles(9, width, base, like)[2])


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("width", WIDTHS[1:])
def test_ntk_scaling_raises_the_base(width: int, base: float) -> None:
    larger = base * 4.0 ** (width / (width - 2))
    expected = [larger ** (-2 * i / width) for i in range(width // 2)]
    scaled = scale(RotaryScaling("ntk", 4.0), width, base)
    assert_close(scaled, torch.tensor(expected, dtype=torch.float64))
    assert scaled[0] == 1
    assert_close(4 * scaled[-1], base ** (-torch.tensor(width - 2.0) / width).double())


@pytest.mark.parametrize("length", [64, 4096, 32768])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_is_that_of_its_authors(truncate: bool, width: int, base: float, length: int) -> None:
    scaling = RotaryScaling("yarn", 16.0, length, 32, 1, truncate=truncate)
    expected = apply_yarn(width, base, 16.0, length, truncate=truncate)
    assert_close(scale(scaling, width, base), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("length", [96, 8192])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_bands_are_those_of_llama(width: int, base: float, length: int) -> None:
    scaling = RotaryScaling("llama3", 8.0, length, 4, 1)
    expected = apply_llama3(width, base, 8.0, length)
    assert_close(scale(scaling, width, base), torch.tensor(expected, dtype=torch.float64))


def test_frequencies_never_rise_and_fall_by_the_factor_at_most() -> None:
    for scaling in (RotaryScaling("ntk", 8.0), YARN, LLAMA3):
        kept, scaled = scale(RotaryScaling("linear", 1.0), 64, 100.0), scale(scaling, 64, 100.0)
        assert (scaled <= kept * (1 + 1e-12)).all() and (scaled >= kept / 8 * (1 - 1e-12)).all()
        assert scaled[0] == kept[0]
        assert_close(scaled[-1], kept[-1] / 8)


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_attention_factor_multiplies_what_rotates(neighbours: bool, share: float) -> None:
    placed = Variant(rotary=True, neighbours=neighbours, share=share, scaling=YARN).place(T)
    count = round(8 * share)
    assert_close(placed[..., :count].norm(dim=-1), 1.2 * T[..., :count].norm(dim=-1))
    assert torch.equal(placed[..., count:], T[..., count:])


@pytest.mark.parametrize("scaling", [RotaryScaling("linear", 4.0), YARN, LLAMA3])
def test_only_distances_count(scaling: RotaryScaling) -> None:
    variant = Variant(rotary=True, scaling=scaling)
    query, key = T[:1, :1, :1].expand(1, 1, 9, 8), T[1:, 2:, :1].expand(1, 1, 9, 8)
    scores = variant.place(query) @ variant.place(key).mT
    for distance in range(9):
        along = scores[0, 0].diagonal(-distance)
        assert_close(along, along[:1].expand_as(along))
