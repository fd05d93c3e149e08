"""The evidence for the bounds of scaled rotations: right algorithms stay within, wrong do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. The largest
ratio of an output is 0.11, in bfloat16, of a gradient 0.02.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.parts.positions import ScalingKind, StatedScaling
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters
from tests.properties.evidence import Evidence, finish, hide, project, scale, spreading, widen

BASE, LENGTH = 100.0, 96
PLAIN = BY_SLUG["rope"].contract
SCALINGS = {
    "linear": StatedScaling(ScalingKind.LINEAR, 2.3),
    "ntk": StatedScaling(ScalingKind.NTK, 40.0),
    "yarn": StatedScaling(ScalingKind.YARN, 40.0, LENGTH, beta_fast=8),
    "yarn between": StatedScaling(
        ScalingKind.YARN, 40.0, LENGTH, beta_fast=8, attention_factor=0.3, truncate=False
    ),
    "llama3": StatedScaling(ScalingKind.LLAMA3, 40.0, LENGTH, 1.0, 4.0),
}
SIZES = (
    Case(batch=2, tokens=5, context_length=5, d_in=3, heads=2, head_dim=4, bias=True),
    Case(batch=1, tokens=24, context_length=24, d_in=16, heads=4, head_dim=6),
    Case(batch=1, tokens=9, context_length=9, d_in=64, heads=3, head_dim=16, bias=True),
    Case(batch=1, tokens=132, context_length=132, d_in=5, heads=2, head_dim=8),
)

Frequencies = Callable[[int, torch.dtype, StatedScaling], Tensor]
Algorithm = tuple[Frequencies, str]
"""frequencies of half the width of a head, and where the attention factor is multiplied"""


def get_contract(name: str) -> Contract:
    return replace(PLAIN, rotary_base=BASE, rotary_scaling=SCALINGS[name])


def count(half: int, dtype: torch.dtype) -> Tensor:
    return torch.arange(half, dtype=dtype)


def powers(half: int, dtype: torch.dtype) -> Tensor:
    return BASE ** (-count(half, dtype) / half)


def reciprocals(half: int, dtype: torch.dtype) -> Tensor:
    return 1.0 / BASE ** (2 * count(half, dtype) / (2 * half))


def number(value: float, dtype: torch.dtype) -> Tensor:
    """A number of the statement, rounded to the dtype."""
    return torch.tensor(value, dtype=dtype)


# -------------------------------------------------------------------------------- frequencies


def divide(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    return powers(half, dtype) / own.factor


def multiply_by_inverse(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    return reciprocals(half, dtype) * (1 / number(own.factor, dtype))


def divide_the_power(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    return 1.0 / (own.factor * BASE ** (count(half, dtype) / half))


def raise_base(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    return float(BASE * own.factor ** (half / (half - 1))) ** (-count(half, dtype) / half)


def raise_base_as_tensor(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    exponent = number(2 * half, dtype) / (number(2 * half, dtype) - 2)
    larger = number(BASE, dtype) * number(own.factor, dtype) ** exponent
    return 1.0 / larger ** (count(half, dtype) / half)


def multiply_powers(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    return powers(half, dtype) * number(own.factor, dtype) ** (-count(half, dtype) / (half - 1))


def blend(frequency: Tensor, kept: Tensor, factor: float) -> Tensor:
    return (1 - kept) * frequency / factor + kept * frequency


def find_share(frequency: Tensor) -> Tensor:
    return (LENGTH * frequency / (2 * math.pi) - 1.0) / (4.0 - 1.0)


def share_clamped(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    frequency = powers(half, dtype)
    return blend(frequency, find_share(frequency).clamp(0, 1), own.factor)


def bands_by_wavelength(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    frequency = reciprocals(half, dtype)
    wavelength = 2 * torch.pi / frequency
    kept = (number(LENGTH, dtype) / wavelength - 1.0) / 3.0
    scaled = torch.where(wavelength > LENGTH, frequency / own.factor, frequency)
    medium = ~(wavelength < LENGTH / 4) & ~(wavelength > LENGTH)
    return torch.where(medium, blend(frequency, kept, own.factor), scaled)


def scaled_by_one_number(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    frequency = powers(half, dtype)
    kept = find_share(frequency).clamp(0, 1)
    return frequency * (1 / own.factor + kept * (1 - 1 / own.factor))


def lerp(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    frequency = powers(half, dtype)
    return torch.lerp(frequency / own.factor, frequency, find_share(frequency).clamp(0, 1))


def find_ends(half: int, own: StatedScaling, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The ramp's ends, from logarithms in the dtype, which is worse than Python's numbers."""
    lengths = (number(LENGTH, dtype) / (turns * 2 * torch.pi) for turns in (8, 1))
    low, high = (half * each.log() / number(BASE, dtype).log() for each in lengths)
    if own.truncate is not False:
        low, high = low.floor(), high.ceil()
    return low.clamp(min=0), high.clamp(max=2 * half - 1)


def ramp(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    low, high = find_ends(half, own, dtype)
    frequency = powers(half, dtype)
    kept = 1 - ((count(half, dtype) - low) / (high - low)).clamp(0, 1)
    return blend(frequency, kept, own.factor)


def ramp_of_reciprocals(half: int, dtype: torch.dtype, own: StatedScaling) -> Tensor:
    low, high = find_ends(half, own, torch.float64)
    period = BASE ** (2 * count(half, dtype) / (2 * half))
    kept = 1 - ((count(half, dtype) - float(low)) / float(high - low)).clamp(0, 1)
    return 1.0 / (own.factor * period) * (1 - kept) + 1.0 / period * kept


RAMPS: dict[str, Algorithm] = {
    "ramp": (ramp, "tables"),
    "of reciprocals": (ramp_of_reciprocals, "tables"),
    "queries and keys": (ramp, "vectors"),
    "scores": (ramp, "scores"),
}
RIGHT: dict[str, dict[str, Algorithm]] = {
    "linear": {
        "divided": (divide, "tables"),
        "by the inverse": (multiply_by_inverse, "tables"),
        "in the power": (divide_the_power, "tables"),
    },
    "ntk": {
        "a larger base": (raise_base, "tables"),
        "a base in the dtype": (raise_base_as_tensor, "tables"),
        "two powers": (multiply_powers, "tables"),
    },
    "yarn": RAMPS,
    "yarn between": RAMPS,
    "llama3": {
        "clamped": (share_clamped, "tables"),
        "wavelengths": (bands_by_wavelength, "tables"),
        "one number": (scaled_by_one_number, "tables"),
        "lerp": (lerp, "tables"),
    },
}
WRONG: dict[str, dict[str, Algorithm]] = {
    "linear": {"not scaled": (lambda half, dtype, _: powers(half, dtype), "tables")},
    "ntk": {"divided": (divide, "tables")},
    "yarn": {"no factor": (ramp, ""), "divided": (divide, "tables")},
    "yarn between": {
        "truncated": (lambda half, dtype, own: ramp(half, dtype, replace(own, truncate=True)), "")
    },
    "llama3": {"divided": (divide, "tables"), "a thousandth more": (
        lambda half, dtype, own: share_clamped(half, dtype, replace(own, factor=40.04)), "tables"
    )},
}  # fmt: skip


def turn(t: Tensor, frequency: Tensor, factor: float) -> Tensor:
    angle = torch.arange(t.shape[-2], dtype=frequency.dtype)[:, None] * frequency
    cos, sin = (factor * angle.cos()).to(t.dtype), (factor * angle.sin()).to(t.dtype)
    a, b = t.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def attend(x: Tensor, p: Parameters, case: Case, compute: Algorithm, own: StatedScaling) -> Tensor:
    q, k, v = project(x, p, case.heads)
    frequencies, where = compute
    frequency, factor = frequencies(q.shape[-1] // 2, widen(q), own), own.table_factor
    q, k = (turn(t, frequency, factor if where == "tables" else 1.0) for t in (q, k))
    if where == "vectors":
        q, k = (t * number(factor, t.dtype) for t in (q, k))
    scores = scale(q, k) * (factor**2 if where == "scores" else 1.0)
    return finish(hide(scores).softmax(-1) @ v, p)


def gather(name: str) -> Evidence[Algorithm]:
    contract = get_contract(name)
    return Evidence(
        contract,
        RIGHT[name],
        WRONG[name],
        draw=spreading(contract),
        attend=partial(attend, own=SCALINGS[name]),
        spreads=(1.0,),
        sizes=SIZES,
        sharpness=(1, 8, 64),
        share=1 / 2,
    )


EVIDENCE = {name: gather(name) for name in SCALINGS}
