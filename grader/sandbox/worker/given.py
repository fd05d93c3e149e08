"""Arguments that every call of a module gets besides tokens and a mask, such as rotary tables."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def make_given(kind: str, x: Tensor, rotation: Mapping[str, Any], before: int = 0) -> Any:
    """Return what an argument of this kind is given in a call for the tokens x.

    So many tokens of the same sequence came `before` in earlier calls.

    `rotation` has the frequencies of the pairs of a head, and a factor on cosines and sines. The
    kinds are those of `properties.terms.call_form.Given`.
    """
    if kind == "zero":
        return before
    if kind in CONSTANTS:
        return CONSTANTS[kind]
    batch, tokens = x.shape[0] if x.dim() == 3 else 1, x.shape[-2]
    positions = torch.arange(before, before + tokens, device=x.device)
    if kind == "position row":
        return positions
    if kind == "positions":
        return positions.expand(batch, tokens)
    frequencies = torch.tensor(rotation["frequencies"], dtype=torch.float64)
    angles = positions.to("cpu", torch.float64)[:, None] * frequencies
    made = TABLES[kind](angles, float(rotation["factor"]))
    return tuple(_fit(each, x) for each in made) if isinstance(made, tuple) else _fit(made, x)


def _fit(table: Tensor, x: Tensor) -> Tensor:
    dtype = x.dtype if not table.is_complex() else torch.promote_types(x.dtype, torch.complex64)
    return table.to(dtype=dtype, device=x.device)


def _double(angles: Tensor) -> Tensor:
    return torch.cat([angles, angles], dim=-1)


def _pair(angles: Tensor) -> Tensor:
    return angles.repeat_interleave(2, dim=-1)


CONSTANTS: Mapping[str, Any] = {"none": None, "false": False, "true": True}
TABLES: Mapping[str, Callable[[Tensor, float], Any]] = {
    "angles": lambda a, _: a,
    "complex angles": lambda a, f: torch.polar(torch.full_like(a, f), a),
    "complex angles as pairs": lambda a, f: f * torch.stack([a.cos(), a.sin()], dim=-1),
    "cosines": lambda a, f: f * a.cos(),
    "sines": lambda a, f: f * a.sin(),
    "cosines of halves": lambda a, f: f * _double(a).cos(),
    "sines of halves": lambda a, f: f * _double(a).sin(),
    "cosines of pairs": lambda a, f: f * _pair(a).cos(),
    "sines of pairs": lambda a, f: f * _pair(a).sin(),
    "cosines and sines": lambda a, f: (f * a.cos(), f * a.sin()),
    "cosines and sines of halves": lambda a, f: (
        f * _double(a)[None].cos(),
        f * _double(a)[None].sin(),
    ),
}
