"""The errors of rotations, and of adding distances to scores."""

import math

import torch
from torch import Tensor

from headcheck.properties.bounds.precision import Precision
from headcheck.reference import RotaryScaling, Variant, rotary_angles

NEAR = 2.0**-10
"""how near to 0 or 1 the share of a frequency that is kept may be rounded to a number between"""


def bound_turning(t: Tensor, variant: Variant) -> Tensor:
    """Bound the size of queries or keys after rotation, given a bound before rotation."""
    if not variant.rotary:
        return t
    cos, sin = variant.make_tables(t)
    return t.abs() * cos.abs() + variant.swap_pairs(t).abs() * sin.abs()


def bound_angles(t: Tensor, variant: Variant, rounding: float) -> Tensor:
    """Bound the error of each angle; the error from base^-e grows with e and with the position.

    Angles are computed in float32 or better, as they have to be: 257 is 256 in bfloat16.
    """
    width = variant.count_turned(t)
    exponent = torch.arange(0, width, 2, dtype=t.dtype) / width
    relative = torch.where(exponent > 0, 4 + exponent * math.log(variant.base), 0.0)
    if variant.scaling is not None:
        relative = relative + _count_scaling(relative, exponent, variant.scaling, variant.base)
    places = variant.list_places(t.shape[-2])
    angles = rotary_angles(max(places) + 1, width, variant.base, t, variant.scaling)[list(places)]
    errors = rounding * relative * angles
    return variant.arrange(torch.cat([errors, errors], dim=-1), t, 0.0)


def _count_scaling(
    relative: Tensor, exponent: Tensor, scaling: RotaryScaling, base: float
) -> Tensor:
    """Return by how many roundings the relative error of each frequency grows in a scaling.

    A division adds the rounding of the factor, of its inverse, and of the quotient, and the product
    with the position is rounded even for the first pair, whose frequency is no longer 1. The power
    of a larger base has a larger logarithm; the base itself is off by its power's error. Of
    frequencies that are kept in part, see `_count_blend`.
    """
    if scaling.kind == "linear":
        return torch.full_like(relative, 4.0)
    if scaling.kind == "ntk":
        more = math.log(scaling.factor) * exponent / exponent.amax().clamp_min(1e-9)
        return torch.where(exponent > 0, 5 + 2 * more, 0.0)
    return _count_blend(relative, exponent, scaling, base)


def _count_blend(relative: Tensor, exponent: Tensor, scaling: RotaryScaling, base: float) -> Tensor:
    """Count the roundings of θ' = θ g, where g = s + (1 - s) / factor and s is the share kept.

    An error of s by δ changes g by (1 - 1/factor) δ, which is relative to g, and g may be as small
    as 1/factor. The sum itself adds five roundings. Outside of the blend θ is kept or divided, and
    s is 0 or 1 without an error.
    """
    frequencies = base**-exponent
    share = scaling.find_kept(frequencies, base)
    kept = share.clamp(0, 1)
    scale = kept + (1 - kept) / scaling.factor
    off = _count_share(relative, frequencies, kept, scaling, base)
    blended = 5 + (1 - 1 / scaling.factor) * off / scale
    whole = torch.where(share >= 1, 0.0, 4.0)
    return torch.where((share > -NEAR) & (share < 1 + NEAR), blended, whole)


def _count_share(
    relative: Tensor, frequencies: Tensor, kept: Tensor, scaling: RotaryScaling, base: float
) -> Tensor:
    """Bound the error of the share s of each frequency that is kept, in roundings.

    llama3: the turns r = L θ / 2π have θ's error and four roundings; r, and the numbers fast and
    slow, are subtracted, so their errors are divided by fast - slow. yarn: the ramp's ends are
    whole numbers, so only the division and 1 - ramp are rounded. If the ends are not truncated,
    each is a quotient of logarithms: three roundings of the argument, and five of the result.
    """
    if scaling.kind == "llama3":
        turns = scaling.original_length * frequencies / (2 * math.pi)
        moved = turns * (relative + 4) + scaling.slow + kept * (scaling.fast + scaling.slow)
        return 1 + 3 * kept + moved / (scaling.fast - scaling.slow)
    if scaling.truncate:
        return torch.full_like(kept, 3.0)
    low, high = scaling.find_ramp(len(kept), base)
    end = 3 * len(kept) / math.log(base) + 5 * max(abs(low), abs(high))
    return torch.full_like(kept, 3 + 3 * end / (high - low))


def count_factor_roundings(variant: Variant) -> int:
    """Return how often an attention factor rounds cosines and sines: the factor and the product."""
    return 0 if variant.scaling is None or variant.scaling.attention_factor == 1 else 2


def bound_placed_error(t: Tensor, error: Tensor, variant: Variant, precision: Precision) -> Tensor:
    """Bound the error of queries or keys after rotation, given their values and errors before.

    The caller may pass the queries or keys after rotation. Rotation keeps the length of a pair, and
    an attention factor multiplies it, as well as each of the table's errors, which are relative to
    the factor. So what is passed may be shorter than before, if the factor is below one.
    """
    if not variant.rotary:
        return error
    size = t.abs() + variant.swap_pairs(t).abs()
    tables = precision.u + precision.ua + bound_angles(t, variant, precision.ua)
    rounded = (2 + count_factor_roundings(variant)) * precision.u
    return bound_turning(error, variant) + 2 * size * (tables + rounded)
