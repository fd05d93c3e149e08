"""Norms of queries and keys, of each head or of all heads together, before positions rotate them.

Sources: Dehghani et al. 2023, section 2 (arXiv:2302.05442); Zhang & Sennrich 2019, section 3
(arXiv:1910.07467); over whole projections OLMo Team 2024, "2 OLMo 2 Furious", section 3
(arXiv:2501.00656).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headcheck.properties.parts.part import Found, Part, Problem, holds, takes
from headcheck.properties.parts.weight import BY_HEAD, COLUMNS, Draws, HeadSizes, Packing, Weight
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import parse_sizes

if TYPE_CHECKING:
    from torch import Tensor

    from headcheck.properties.contracts.contract import Contract


GAINS = ("gain_q", "gain_k", "shift_q", "shift_k")
"""the parameters of norms of queries and keys"""


class Norm(StrEnum):
    """The norm of the queries and keys of each head."""

    NONE = ""
    RMS = "rms"
    LAYER = "layer"


class NormOver(StrEnum):
    """The numbers over which a norm of queries or keys averages."""

    HEAD = "head"
    PROJECTION = "projection"


NAMES = re.compile(
    r"norm|(^|[._])(\w*_)?(ln|rms|gain|gamma|scale)|(^|[._])[qk]_?n($|[._])", re.IGNORECASE
)
KEY = re.compile(r"(^|[._\d])w?k(ey)?s?n?($|[._\d])|key", re.IGNORECASE)
SHIFT = re.compile(r"(^|[._])(bias|beta|shift)|_(bias|beta|shift)", re.IGNORECASE)
LENGTH_ALONE = 1e-30
"""stands for nothing that is added: queries are divided by their length, as F.normalize does"""
EPSILONS = (1e-6, 1e-5, 1e-8, 1e-12, 0.0, LENGTH_ALONE)
"""the small numbers that the norms of models add; 0 stands for the dtype's machine epsilon, torch's
default
"""
GAINS_FROM = (0.0, 1.0)
LEAST = {Norm.RMS: 2, Norm.LAYER: 3}
"""the least width of a head: with fewer numbers only signs are left after a norm"""


def _count_queries_own(sizes: HeadSizes) -> int:
    """Return how many heads have a gain of their own: all, or one gain serves all heads."""
    return sizes.heads if sizes.gains_by_head else 1


def _count_keys_own(sizes: HeadSizes) -> int:
    return sizes.kv_heads if sizes.gains_by_head else 1


def _width(sizes: HeadSizes) -> int:
    """Return how many numbers a gain has for each head: those of one of its maps."""
    return sizes.head_dim if sizes.gains_by_head else sizes.head_dim // sizes.maps


def _draw(draws: Draws, name: str) -> Tensor:
    """Draw a number for each coordinate of a head, or of all heads."""
    case, contract = draws.case, draws.contract
    if contract.gains_by_head:
        count = case.kv_heads if name[-1] == "k" else case.heads
        return draws.vector(name, count * case.head_dim)
    return draws.vector(name, case.head_dim // contract.maps)


def _draw_gain(name: str) -> Callable[[Draws], Tensor]:
    def draw(draws: Draws) -> Tensor:
        gain = (1 + _draw(draws, name) / 4) * math.sqrt(draws.case.sharpness)
        return gain - draws.contract.norm_gain_from

    return draw


def _draw_shift(name: str) -> Callable[[Draws], Tensor]:
    return lambda draws: _draw(draws, name) / 2


def _guess(path: str) -> str | None:
    """Return the parameter of a norm that a name suggests; None if it suggests no norm."""
    if NAMES.search(path) is None:
        return None
    kind, role = "shift" if SHIFT.search(path) else "gain", "k" if KEY.search(path) else "q"
    return f"{kind}_{role}"


def _make_weight(name: str, stream: int) -> Weight:
    """Return the gain or the shift of the norm of queries or keys."""
    kind, role = name.split("_")
    draw = {"gain": _draw_gain, "shift": _draw_shift}[kind](name)
    count, of = {"q": (_count_queries_own, "queries"), "k": (_count_keys_own, "keys")}[role]
    words = f"the {kind} of the norm of {of}"
    return Weight(
        name,
        stream,
        draw,
        count,
        _width,
        words=words,
        is_named=lambda path: _guess(path) == name,
        tried=(Packing.ROWS, Packing.STACKED, *COLUMNS),
    )


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that there is something to norm, and that heads tell the two kinds of norms apart."""
    if contract.norm is Norm.NONE:
        text = 'gains and shifts belong to norms: write norm = "rms" or "layer"'
        yield ("parameters",), None, text
    elif not contract.stores("W_q"):
        text = "norms are those of projected queries and keys: say where W_q is, or leave it out"
        yield ("norm",), None, text
    if contract.stores("lambdas") and contract.gains_by_head != (
        contract.norm_over is NormOver.PROJECTION
    ):
        text = "the halves of all heads share one gain: leave the packing out"
        yield ("parameters",), None, text
    alone = not has_several_heads(contract) and contract.maps == 1
    if contract.norm_over is NormOver.PROJECTION and alone:
        yield ("norm_over",), None, "a single head is the whole projection: leave it out"


def has_several_heads(contract: Contract) -> bool:
    """Return whether the contract allows more than one head."""
    return takes("heads", "config")(contract) or (contract.sizes or {}).get("heads", 1) > 1


def _make_steps(contract: Contract, case: Case) -> Mapping[str, Any]:
    import torch

    rounding = torch.finfo(getattr(torch, case.dtype)).eps
    # Of two maps, each has its own norm.
    halves = contract.norm_over is NormOver.HEAD and contract.stores("lambdas")
    return {
        "norm": contract.norm.value,
        "epsilon": contract.norm_epsilon or rounding if contract.norm else 0.0,
        "norm_over": "half" if halves else contract.norm_over.value,
        "gain_from": contract.norm_gain_from,
    }


def _describe(contract: Contract) -> str:
    if contract.norm is Norm.NONE:
        return ""
    if contract.norm_epsilon == LENGTH_ALONE and not contract.stores("gain_q"):
        return "queries and keys of length one"
    whole = contract.norm_over is NormOver.PROJECTION
    return "a norm of queries and keys" + " over all heads" * whole


def _list_sentences(contract: Contract) -> Iterator[str]:
    divided = "the root of their mean square"
    if contract.norm is Norm.LAYER:
        divided = "the root of their variance, less their mean"
    epsilon = f"{contract.norm_epsilon:g}" if contract.norm_epsilon else "the dtype's `eps`"
    gain = "1 + gain" if contract.norm_gain_from else "gain"
    of = "each query and key"
    if contract.norm_over is NormOver.PROJECTION:
        of = "all heads' queries of a token, and those of all heads' keys,"
    yield (
        f"\nFirst the numbers of {of} are divided by {divided}, to which "
        f"{epsilon} is added under the root, and multiplied by the {gain}."
    )


def _read(contract: Contract, found: Found) -> Iterator[Contract]:
    """Yield the contract with each norm that its gains may belong to.

    A gain that is wider than a head belongs to a norm over all heads, unless it has an axis for
    heads: then each head has its own.
    """
    if not contract.stores("gain_q"):
        yield contract
        return
    gains = [m for m in contract.mappings if m.holds[0] in ("gain_q", "gain_k")]
    own = any(m.packing in BY_HEAD for m in gains)
    whole = not own and any(found.shapes[m.path] != (found.case.head_dim,) for m in gains)
    over = NormOver.PROJECTION if whole else NormOver.HEAD
    kinds = (Norm.LAYER,) if contract.stores("shift_q") else (Norm.RMS, Norm.LAYER)
    for kind, start in list(itertools.product(kinds, GAINS_FROM))[: None if found.is_named else 1]:
        if found.case.head_dim >= LEAST[kind]:
            normed = replace(_limit(contract, kind), norm=kind, norm_over=over)
            yield replace(normed, norm_epsilon=EPSILONS[0], norm_gain_from=start)


def iter_without_gains(contract: Contract) -> Iterator[Contract]:
    """Yield the contract with each norm of queries and keys, none of which learns anything."""
    for kind in (Norm.RMS, Norm.LAYER):
        yield replace(_limit(contract, kind), norm=kind, norm_epsilon=EPSILONS[0])


def _limit(contract: Contract, kind: Norm) -> Contract:
    """Return the contract for heads that are wide enough for a norm."""
    return contract.with_sizes(parse_sizes(f"head_dim>={LEAST[kind]}"))


NORMS = Part(
    name="norms of queries and keys",
    is_in=lambda contract: contract.norm is not Norm.NONE or holds("gain_q")(contract),
    breaks=frozenset({Capability.UNNORMED, Capability.DOT_PRODUCT}),
    keys=("norm_epsilon", "norm_gain_from", "norm_over"),
    missing='norms of queries and keys: write norm = "rms" or "layer"',
    weights=(
        _make_weight("gain_q", 16),
        _make_weight("gain_k", 17),
        _make_weight("shift_q", 18),
        _make_weight("shift_k", 19),
    ),
    find_problems=_find_problems,
    make_steps=_make_steps,
    describe=_describe,
    list_sentences=_list_sentences,
    names=NAMES,
    read=_read,
)
