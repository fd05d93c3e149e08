"""How a module is given its tokens, its mask, and other arguments such as rotary tables.

A convention has the fields of `properties.terms.call_form.MaskConvention`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

CUT = ("batch heads tokens width", "batch tokens heads width")
"""the orders of axes in which tokens are already split into heads"""
WINDOW = "batch rows columns channels"
"""the order of axes of images each of which is one window, and a sequence of the usual batch"""
BESIDE_CONTEXT = "batch channels rows columns"
"""the order of axes of images beside a context whose axes are in the usual order"""
FRAMES = "batch frames tokens width"
"""the order of axes in which a batch has frames; here they are sequences of the usual batch"""


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


def convert_mask(
    convention: Mapping[str, Any], mask: Tensor | None, x: Tensor, *others: Tensor
) -> Tensor:
    """Return a mask of the usual form, nonzero where a query may attend, as a module takes it.

    Without one, the mask shows all `others`, or x itself.
    """
    if mask is None:
        keys = others[0] if others else x
        keep = torch.ones(x.shape[0], 1, x.shape[1], keys.shape[1], dtype=torch.bool)
        keep = (keep[:, :, :1] if convention["keys_only"] else keep[:1]).to(x.device)
    else:
        keep = mask != 0
    if convention["given_as"] != "mask":
        return _say_in_numbers(keep, x.shape[0] if x.dim() == 3 else 1, convention)
    own: Tensor = keep if mask is None else mask
    match convention["polarity"]:
        case "block":
            own = ~keep
        case "added":
            own = torch.zeros(keep.shape, dtype=x.dtype, device=x.device)
            own = own.masked_fill(~keep, float(convention["fill"]))
    if convention["dtype"] is not None:
        dtype = getattr(torch, convention["dtype"])
        if convention["polarity"] == "keep" and own.dtype != dtype:
            own = keep
        own = own.to(dtype)  # the caller's itself, if it needs no change: writing into it shows
    return _fit_axes(convention, own, x.shape[0])


def convert_numbers(convention: Mapping[str, Any], mask: Any, x: Tensor, *others: Tensor) -> Tensor:
    """Return a mask that is added to the scores, with its numbers unchanged."""
    dtype = x.dtype if convention["dtype"] is None else getattr(torch, convention["dtype"])
    return _fit_axes(convention, mask.to(dtype), x.shape[0])


def _fit_axes(convention: Mapping[str, Any], mask: Tensor, batch: int) -> Tensor:
    """Return the mask with as many axes as the module expects, the first one for the batch."""
    axes = convention["axes"] or mask.dim()
    while mask.dim() < axes:
        mask = mask.unsqueeze(0)
    for axis in (1, 1 if convention["keys_only"] else 0):
        if mask.dim() > axes and mask.shape[axis] == 1:
            mask = mask.squeeze(axis)
    whole = axes > 2 or convention["keys_only"]
    if convention["axes"] is not None and whole and mask.shape[0] == 1:
        mask = mask.expand(batch, *mask.shape[1:])
    return _keep_one_turn(mask) if convention["in_turn"] else mask


def _keep_one_turn(masks: Tensor) -> Tensor:
    """Return the first masks, which all others repeat."""
    batch = len(masks)
    for count in range(1, batch):
        if batch % count == 0 and torch.equal(masks[count:], masks[:-count]):
            return masks[:count]
    return masks


def _say_in_numbers(keep: Tensor, batch: int, convention: Mapping[str, Any]) -> Tensor:
    """Return lengths, numbers of documents or their boundaries for a mask that these can say."""
    while keep.dim() < 4:
        keep = keep.unsqueeze(0)
    keep = keep[:, 0].expand(batch, -1, -1)
    dtype = getattr(torch, convention["dtype"] or "int64")
    if convention["given_as"] == "lengths":
        lengths = keep.sum(-1)
        one = convention["keys_only"] or (convention["axes"] is None and keep.shape[1] == 1)
        return (lengths[:, 0] if one else lengths).to(dtype)
    first = keep.to(torch.int64).argmax(-1)  # a document's tokens see the same first token
    starts = torch.nn.functional.pad(first.diff(dim=-1) != 0, (1, 0))
    if convention["given_as"] == "documents":
        return starts.cumsum(-1).to(dtype)
    ends = torch.tensor([keep.shape[-1]], device=keep.device)
    zero = torch.zeros_like(ends)
    return torch.cat([zero, starts[0].nonzero().flatten(), ends]).to(dtype)


def order_axes(tokens: Tensor, axes: str, heads: int) -> Tensor:
    """Reorder the axes of tokens, (batch, tokens, width) or (tokens, width), as `axes` says."""
    match axes:
        case "tokens batch width":
            return tokens.transpose(0, 1)
        case "batch width tokens":
            return tokens.mT
        case "batch width rows columns" | "batch channels rows columns":
            count = tokens.shape[-2]
            rows = max((n for n in range(1, math.isqrt(count) + 1) if count % n == 0), default=1)
            return torch.unflatten(tokens.mT, -1, (rows, count // rows))
        case "batch rows columns channels" if tokens.dim() < 4:
            return lay_window(tokens)
        case "batch frames tokens width" if tokens.dim() == 3:
            return torch.unflatten(tokens, 0, (-1, 1 if len(tokens) % 2 else 2))
        case "batch heads tokens width":
            return torch.unflatten(tokens, -1, (heads, -1)).transpose(1, 2)
        case "batch tokens heads width":
            return torch.unflatten(tokens, -1, (heads, -1))
    return tokens


def find_width(axes: str) -> int:
    """Return which axis holds the width of tokens."""
    return 1 if axes.startswith(("batch width", "batch channels")) else -1


def lay_window(tokens: Tensor) -> Tensor:
    """Lay the tokens of each sequence as a square. Raises ValueError if they fill none."""
    count = tokens.shape[-2]
    if (side := math.isqrt(count)) ** 2 != count:
        raise ValueError(f"{count} pixels are no square window")
    image: Tensor = tokens.unflatten(-2, (side, side))
    return image if tokens.dim() == 3 else image[None]


def restore_axes(output: Tensor, axes: str) -> Tensor:
    """Return an output with its axes in the usual order, if it has all of them."""
    match axes:
        case "tokens batch width" if output.dim() > 1:
            return output.transpose(0, 1)
        case "batch width tokens" if output.dim() > 1:
            return output.mT
        case "batch width rows columns" | "batch channels rows columns" if output.dim() > 2:
            return output.flatten(-2).mT
        case "batch rows columns channels" if output.dim() == 4:
            return output.flatten(1, 2)
        case "batch frames tokens width" if output.dim() == 4:
            return output.flatten(0, 1)
        case "batch heads tokens width" if output.dim() == 4:
            return output.transpose(1, 2).flatten(-2)
        case "batch tokens heads width" if output.dim() == 4:
            return output.flatten(-2)
    return output
