"""Positions: queries and keys rotate by their positions, or scores fall with the distance.

Or scores get a learned number for the distance. Sources: Su et al. 2021, RoFormer, section 3.2.2
(arXiv:2104.09864); Press et al. 2022, ALiBi, section 3 (arXiv:2108.12409); Raffel et al. 2020, T5,
section 2.1 (arXiv:1910.10683).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem, may_be_odd
from headcheck.properties.parts.weight import Weight, heads, one
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract


class Positions(StrEnum):
    """How the answer depends on the positions of tokens, apart from the mask."""

    NONE = "not at all"
    ROTARY = "queries and keys are rotated, in halves"
    ROTARY_NEIGHBOURS = "queries and keys are rotated, in pairs of neighbours"
    ALIBI = "scores fall with the distance"
    RELATIVE = "scores get a learned number for the distance"


ROTARY = (Positions.ROTARY, Positions.ROTARY_NEIGHBOURS)
NEEDED = {Capability.POSITIONS: 'write positions = "rotary", "alibi" or "relative"'}


def _find_problems(contract: Contract) -> Iterator[Problem]:
    if contract.has(Capability.CROSS):
        yield ("positions",), None, "two sequences have no common positions: leave this out"


def _find_problems_of_pairs(contract: Contract) -> Iterator[Problem]:
    """Check that the numbers of rotations make sense, and that heads have pairs."""
    if contract.rotary_base <= 1:
        yield ("rotary_base",), None, f"must be more than 1, not {contract.rotary_base:g}"
    if not 0 < contract.rotary_share <= 1:
        yield ("rotary_share",), None, f"must be from 0 to 1, not {contract.rotary_share:g}"
    # In differential attention each half of a head has its own pairs.
    share = contract.rotary_share / (2 if contract.stores("lambdas") else 1)
    if not contract.stores("W_down") and may_be_odd(contract, share):
        factor = 2 / share
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


def _find_problems_of_buckets(contract: Contract) -> Iterator[Problem]:
    """Check that there is a table of numbers, and that distances can be sorted."""
    if contract.positions is not Positions.RELATIVE:
        yield ("positions",), None, 'W_rel is for distances: write positions = "relative"'
    if not contract.stores("W_rel"):
        text = "a number for each bucket and head is added to scores: say where W_rel is stored"
        yield ("parameters",), None, text
    causal = Capability.CAUSAL in contract.capabilities
    least, own = (2, contract.relative_buckets) if causal else (4, contract.relative_buckets // 2)
    if contract.relative_buckets < least or contract.relative_buckets % 2:
        text = f"must be even, and at least {least}, not {contract.relative_buckets}"
        yield ("relative_buckets",), None, text
    elif contract.relative_farthest <= own // 2:
        text = f"the first {own // 2} distances have own buckets, so this must be more"
        yield ("relative_farthest",), None, text
    yield from _find_problems(contract)


RELATIVE = Part(
    name="relative positions",
    is_in=lambda contract: contract.positions is Positions.RELATIVE or contract.stores("W_rel"),
    brings=frozenset({Capability.POSITIONS, Capability.RELATIVE}),
    breaks=frozenset({Capability.PLACELESS, Capability.UNBIASED}),
    keys=("relative_buckets", "relative_farthest"),
    missing='relative positions: write positions = "relative"',
    weights=(
        Weight(
            "W_rel",
            31,
            lambda draws: draws.matrix(
                "W_rel",
                draws.contract.relative_buckets,
                draws.case.heads,
                math.sqrt(draws.case.heads),
            ),
            heads=one,
            rows=lambda sizes: sizes.buckets,
            columns=heads,
            is_optional=False,
        ),
    ),
    needed={**NEEDED, Capability.RELATIVE: 'write positions = "relative"'},
    find_problems=_find_problems_of_buckets,
)
