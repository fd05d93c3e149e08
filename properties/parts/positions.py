"""Positions: queries and keys rotate by their positions, or scores fall with the distance.

Sources: Su et al. 2021, RoFormer, section 3.2.2 (arXiv:2104.09864); Press et al. 2022, ALiBi,
section 3 (arXiv:2108.12409).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem, may_be_odd
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract


class Positions(StrEnum):
    """How the answer depends on the positions of tokens, apart from the mask."""

    NONE = "not at all"
    ROTARY = "queries and keys are rotated, in halves"
    ROTARY_NEIGHBOURS = "queries and keys are rotated, in pairs of neighbours"
    ALIBI = "scores fall with the distance"


ROTARY = (Positions.ROTARY, Positions.ROTARY_NEIGHBOURS)
NEEDED = {Capability.POSITIONS: 'write positions = "rotary" or "alibi"'}


def _find_problems(contract: Contract) -> Iterator[Problem]:
    if contract.has(Capability.CROSS):
        yield ("positions",), None, "two sequences have no common positions: leave this out"


def _find_problems_of_pairs(contract: Contract) -> Iterator[Problem]:
    """Check that the numbers of rotations make sense, and that heads have pairs."""
    if contract.rotary_base <= 1:
        yield ("rotary_base",), None, f"must be more than 1, not {contract.rotary_base:g}"
    if not 0 < contract.rotary_share <= 1:
        yield ("rotary_share",), None, f"must be from 0 to 1, not {contract.rotary_share:g}"
    if not contract.stores("W_down") and may_be_odd(contract, contract.rotary_share):
        factor = 2 / contract.rotary_share
        text = f"rotations need pairs: let `size_rules` make head_dim a multiple of {factor:g}"
        yield ("positions",), None, text
    yield from _find_problems(contract)


ROTATIONS = Part(
    name="rotary positions",
    is_in=lambda contract: contract.positions in ROTARY,
    brings=frozenset({Capability.POSITIONS}),
    breaks=frozenset({Capability.PLACELESS, Capability.DOT_PRODUCT}),
    keys=("rotary_base", "rotary_share"),
    missing='rotary positions: write positions = "rotary" or "rotary_neighbours"',
    needed=NEEDED,
    find_problems=_find_problems_of_pairs,
)
ALIBI = Part(
    name="ALiBi",
    is_in=lambda contract: contract.positions is Positions.ALIBI,
    brings=frozenset({Capability.POSITIONS}),
    breaks=frozenset({Capability.PLACELESS, Capability.UNBIASED}),
    needed=NEEDED,
    find_problems=_find_problems,
)
