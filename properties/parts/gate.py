"""A gate: a sigmoid of each token that multiplies what the heads give for this token.

Source: Qiu et al. 2025, "Gated attention for large language models", section 3 (arXiv:2505.06708).
"""

from __future__ import annotations

import re

from headcheck.properties.parts.part import Part, holds
from headcheck.properties.parts.weight import Draws, HeadSizes, Packing, Weight, d_in
from headcheck.properties.terms.capability import Capability

NAMES = re.compile(
    r"^(?!.*norm|(.*[._])?[qk]_?n\.)(.*[._])?(gat(e|es|ing)|w?g)(_\w*)?($|[._])", re.IGNORECASE
)
SPREAD = 2.0
"""the standard deviation of a gate before its sigmoid: most gates are neither closed nor open"""


def _count_numbers(draws: Draws) -> int:
    """Return how many numbers a token's gate has: one for each head, or for each coordinate."""
    return draws.case.heads if draws.contract.gates_heads else draws.case.d_out


def _make_example(sizes: HeadSizes) -> list[tuple[int, ...]]:
    """Return a layer whose rows come in reverse order for the second head."""
    rows = (2, 0, -1, 0), (0, 1, 0, 2), (-2, 1, 0, 0), (1, -1, 2, 1)
    return [row[: sizes.d_in] for row in (*rows, *rows[::-1])[: sizes.d_out]]


GATE = Part(
    name="gate",
    is_in=holds("W_gate"),
    brings=frozenset({Capability.GATED}),
    breaks=frozenset({Capability.UNGATED}),
    weights=(
        Weight(
            "W_gate",
            13,
            lambda draws: draws.matrix("W_gate", _count_numbers(draws), draws.case.d_in, SPREAD),
            columns=d_in,
            is_optional=False,
            words="the gate",
            is_named=lambda path: True,
            tried=(Packing.ROWS, Packing.HEADWISE),
            make_example=_make_example,
        ),
        Weight(
            "b_gate",
            15,
            lambda draws: draws.vector("b_gate", _count_numbers(draws)) / 2,
            needs=("W_gate",),
            is_named=NAMES.search,
            tried=(Packing.ROWS, Packing.HEADWISE),
        ),
    ),
    needed={Capability.GATED: "a parameter must hold W_gate"},
    describe=lambda contract: "a gate",
    names=NAMES,
)
