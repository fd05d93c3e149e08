"""Error bounds of queries, keys and values, and of their layers' gradients.

The rounding errors of a correct implementation are proportional to sums of absolute values, even if
the terms cancel. This module computes these sums, also for gradients that go through norms and
layers.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from headcheck.properties.bounds.layers import Scales, bound_layer
from headcheck.properties.bounds.norms import AbsoluteNorm, make_absolute_norm
from headcheck.properties.bounds.positions import bound_turning
from headcheck.properties.terms.case import Case
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
        make_absolute_norm(query, q.detach(), *raw.get_norm("q"), variant),
        make_absolute_norm(key, k.detach(), *raw.get_norm("k"), variant),
    )
    query, key = (
        t if norm is None else norm.apply() for t, norm in zip((query, key), norms, strict=True)
    )
    query, key = append_beside(query, key, project_beside(x, p, x))
    if raw.lambdas is not None:
        query, key = split_maps(query), split_maps(key)
    query, key = bound_turning(query, variant), bound_turning(key, variant)
    return query, key, value, norms


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
        scales["latent"] = torch.zeros_like(latent)
    if p.W_qr is not None:
        own["qr"] = parts["q"][..., case.head_dim :]
        own["kr"] = parts["k"][..., case.head_dim :]
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
