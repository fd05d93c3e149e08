"""The errors of rotations, and of adding distances to scores."""

import math

import torch
from torch import Tensor

from headcheck.properties.bounds.precision import Precision
from headcheck.reference import Variant, rotary_angles


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
    errors = rounding * relative * rotary_angles(t.shape[-2], width, variant.base, t)
    return variant.arrange(torch.cat([errors, errors], dim=-1), t, 0.0)


def bound_placed_error(t: Tensor, error: Tensor, variant: Variant, precision: Precision) -> Tensor:
    """Bound the error of queries or keys after rotation, given their values and errors before.

    Rotation keeps lengths, so the caller may pass the queries or keys after rotation.
    """
    if not variant.rotary:
        return error
    size = t.abs() + variant.swap_pairs(t).abs()
    tables = precision.u + precision.ua + bound_angles(t, variant, precision.ua)
    return bound_turning(error, variant) + 2 * size * (tables + 2 * precision.u)
