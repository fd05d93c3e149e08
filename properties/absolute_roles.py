"""Error bounds of queries, keys and values, and of their layers' gradients.

The rounding errors of a correct implementation are proportional to sums of absolute values, even if
the terms cancel. This module computes these sums, also for gradients that go through norms and
layers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.properties.case import Case
from headcheck.properties.role_tolerance import bound_turning
from headcheck.reference import (
    MultiHeadResult,
    Parameters,
    Variant,
    append_beside,
    linear,
    merge_heads,
    project,
    project_beside,
    split_maps,
    split_shared_heads,
)


@dataclass(frozen=True, eq=False)
class AbsoluteNorm:
    """The norm of queries or keys, applied to absolute values of numbers and of gradients.

    With r one over the root of the mean square and y = t r, the gradient of t is r (g - y mean(y
    g)), where g is the gradient of y, and y is then multiplied by the gain.
    """

    unit: Tensor
    """the normed tensor, before the gain"""
    size: Tensor
    """r"""
    factor: Tensor
    shift: Tensor
    centred: bool

    def apply(self) -> Tensor:
        return self.unit * self.factor + self.shift

    def bound_own(self, name: str, grad: Tensor) -> dict[str, Tensor]:
        """Return the gradients of the gain and the shift, given the gradient of the result."""
        gain = (grad * self.unit).flatten(0, -2).sum(0)
        return {f"gain_{name}": gain, f"shift_{name}": grad.flatten(0, -2).sum(0)}

    def pull_back(self, grad: Tensor) -> Tensor:
        """Return the gradient of the norm's input, given the gradient of its result."""
        inner = grad * self.factor
        pulled = self.size * (inner + self.unit * (self.unit * inner).mean(-1, keepdim=True))
        return pulled + pulled.mean(-1, keepdim=True) if self.centred else pulled


def make_absolute_norm(
    bound: Tensor, exact: Tensor, gain: Tensor | None, shift: Tensor | None, variant: Variant
) -> AbsoluteNorm | None:
    """Return the absolute norm for a bound and the exact values; None if there is no norm."""
    if not variant.norm:
        return None
    centred = variant.norm == "layer"
    if centred:
        exact = exact - exact.mean(-1, keepdim=True)
        bound = bound + bound.mean(-1, keepdim=True)
    size = variant.measure(exact)
    factor = torch.ones(()) if gain is None else (variant.gain_from + gain).abs()
    return AbsoluteNorm(
        bound * size, size, factor, torch.zeros(()) if shift is None else shift.abs(), centred
    )


def bound_roles(
    x: Tensor, parameters: Parameters, exact: MultiHeadResult, variant: Variant
) -> tuple[Tensor, Tensor, Tensor, tuple[AbsoluteNorm | None, AbsoluteNorm | None]]:
    """Bound queries, keys and values by the absolute values of all numbers.

    Returns the norms of queries and keys, too.
    """
    heads, raw = exact.query.shape[-3], parameters
    x, p = x.abs(), parameters.map(lambda t: t.detach().abs())
    query, key, value = split_shared_heads(project(x, p, x, x), heads)
    q, k, _ = split_shared_heads(exact.projected, heads)
    norms = (
        make_absolute_norm(query, q.detach(), raw.gain_q, raw.shift_q, variant),
        make_absolute_norm(key, k.detach(), raw.gain_k, raw.shift_k, variant),
    )
    query, key = (
        t if norm is None else norm.apply() for t, norm in zip((query, key), norms, strict=True)
    )
    query, key = append_beside(query, key, project_beside(x, p, x))
    query, key = bound_turning(query, variant), bound_turning(key, variant)
    if raw.lambdas is not None:
        query, key = split_maps(query), split_maps(key)
    return query, key, value, norms


Scales = dict[str, Tensor]
"""scales of the gradients of x and of parameters"""


def enter_layers(x: Tensor, p: Parameters, parts: Mapping[str, Tensor], case: Case) -> Scales:
    """Propagate gradients back from all heads' queries, keys and values to their layers and to x.

    Parameters and x are absolute values. With latents, the rotating coordinates follow each head's
    own.
    """
    sources = dict.fromkeys(parts, x)
    own = {name: part[..., : case.head_dim] for name, part in parts.items()}
    scales = {"x": torch.zeros_like(x)}
    if p.W_down is not None:
        latent = linear(x, p.W_down)
        sources |= {"k": latent, "v": latent}
        own["qr"] = parts["q"][..., case.head_dim :]
        own["kr"] = parts["k"][..., case.head_dim :]
        scales["latent"] = torch.zeros_like(latent)
    for name, part in own.items():
        into = merge_heads(part.unflatten(-3, (count_heads(name, case), -1)).sum(-3))
        source = sources.get(name, x)
        scales |= bound_layer(name, into, source)
        read = "x" if source is x else "latent"
        scales[read] = scales[read] + into @ getattr(p, f"W_{name}")
    if p.W_down is not None:
        into = scales.pop("latent")
        scales |= bound_layer("down", into, x)
        scales["x"] = scales["x"] + into @ p.W_down
    return scales


def count_heads(name: str, case: Case) -> int:
    """Return how many heads a part has: keys and values may be shared; rotating keys always are."""
    if name == "kr":
        return 1
    return case.kv_heads if name in "kv" else case.heads


def bound_layer(name: str, grad: Tensor, x: Tensor) -> Scales:
    """Return a layer's gradients of weight and bias, given its input and its output's gradient."""
    rows = grad.flatten(0, -2)
    return {f"W_{name}": rows.mT @ x.flatten(0, -2), f"b_{name}": rows.sum(0)}
