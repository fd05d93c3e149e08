"""Norms of the queries and keys of each head, before positions rotate them.

Sources: Dehghani et al. 2023, section 2 (arXiv:2302.05442); Zhang & Sennrich 2019, section 3
(arXiv:1910.07467).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, holds
from headcheck.properties.parts.weight import Draws, Weight, one
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from torch import Tensor


class Norm(StrEnum):
    """The norm of the queries and keys of each head."""

    NONE = ""
    RMS = "rms"
    LAYER = "layer"


def _draw_gain(name: str) -> Callable[[Draws], Tensor]:
    def draw(draws: Draws) -> Tensor:
        gain = (1 + draws.vector(name, draws.case.head_dim) / 4) * math.sqrt(draws.case.sharpness)
        return gain - draws.contract.norm_gain_from

    return draw


def _draw_shift(name: str) -> Callable[[Draws], Tensor]:
    return lambda draws: draws.vector(name, draws.case.head_dim) / 2


NORMS = Part(
    name="norms of queries and keys",
    is_in=lambda contract: contract.norm is not Norm.NONE or holds("gain_q")(contract),
    breaks=frozenset({Capability.UNNORMED, Capability.DOT_PRODUCT}),
    keys=("norm_epsilon", "norm_gain_from"),
    missing='norms of queries and keys: write norm = "rms" or "layer"',
    weights=(
        Weight("gain_q", 16, _draw_gain("gain_q"), one),
        Weight("gain_k", 17, _draw_gain("gain_k"), one),
        Weight("shift_q", 18, _draw_shift("shift_q"), one),
        Weight("shift_k", 19, _draw_shift("shift_k"), one),
    ),
)
