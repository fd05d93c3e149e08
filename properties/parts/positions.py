"""Positions: queries and keys rotate by their positions, or scores fall with the distance.

Or scores get a learned number for the distance. Sources: Su et al. 2021, RoFormer, section 3.2.2
(arXiv:2104.09864); Press et al. 2022, ALiBi, section 3 (arXiv:2108.12409); Raffel et al. 2020, T5,
section 2.1 (arXiv:1910.10683).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem, list_widths, may_be_odd
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
    ALIBI_TWO_SEQUENCES = "scores fall with the distance, by slopes of two sequences"
    RELATIVE = "scores get a learned number for the distance"


class ScalingKind(StrEnum):
    """How rotary frequencies are scaled; `reference.rotary_scaling` has the equations."""

    LINEAR = "linear"
    NTK = "ntk"
    YARN = "yarn"
    LLAMA3 = "llama3"


@dataclass(frozen=True, slots=True)
class StatedScaling:
    """A scaling of rotary frequencies, with the names that its numbers have in files of models.

    None means absent; YaRN has usual numbers for all but the factor and the original length.
    """

    kind: ScalingKind
    factor: float
    original_length: int | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    attention_factor: float | None = None
    truncate: bool | None = None

    @property
    def limits(self) -> tuple[tuple[str, float], tuple[str, float]]:
        """The numbers of turns at which pairs begin to be divided and to be kept, with names."""
        if self.kind is ScalingKind.LLAMA3:
            slow, fast = self.low_freq_factor, self.high_freq_factor
            return ("low_freq_factor", slow or 0.0), ("high_freq_factor", fast or 0.0)
        slow = 1.0 if self.beta_slow is None else self.beta_slow
        fast = 32.0 if self.beta_fast is None else self.beta_fast
        return ("beta_slow", slow), ("beta_fast", fast)

    @property
    def table_factor(self) -> float:
        """The factor of cosines and sines."""
        if self.kind is not ScalingKind.YARN:
            return 1.0
        usual = 0.1 * math.log(self.factor) + 1
        return usual if self.attention_factor is None else self.attention_factor


NUMBERS: Mapping[ScalingKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    ScalingKind.LINEAR: ((), ()),
    ScalingKind.NTK: ((), ()),
    ScalingKind.YARN: (
        ("original_length",),
        ("beta_fast", "beta_slow", "attention_factor", "truncate"),
    ),
    ScalingKind.LLAMA3: (("original_length", "low_freq_factor", "high_freq_factor"), ()),
}
"""the numbers that each kind of scaling needs besides the factor, and those that it may have"""

ROTARY = (Positions.ROTARY, Positions.ROTARY_NEIGHBOURS)
LINEAR = (Positions.ALIBI, Positions.ALIBI_TWO_SEQUENCES)
NEEDED = {Capability.POSITIONS: 'write positions = "rotary", "alibi" or "relative"'}


def _find_problems(contract: Contract) -> Iterator[Problem]:
    if contract.has(Capability.CROSS) and not contract.has(Capability.CAUSAL):
        text = "two sequences have no common positions, unless queries are the last of the tokens"
        yield ("positions",), None, f"{text}, as with `causal`: leave this out"


def _find_problems_of_pairs(contract: Contract) -> Iterator[Problem]:
    """Check that the numbers of rotations make sense, and that heads have pairs."""
    if contract.rotary_base <= 1:
        yield ("rotary_base",), None, f"must be more than 1, not {contract.rotary_base:g}"
    if not 0 < contract.rotary_share <= 1:
        yield ("rotary_share",), None, f"must be from 0 to 1, not {contract.rotary_share:g}"
    # In differential attention each half of a head has its own pairs.
    share = contract.rotary_share / (2 if contract.stores("lambdas") else 1)
    if not contract.stores("W_qr") and may_be_odd(contract, share):
        factor = 2 / share
        text = f"rotations need pairs: let `size_rules` make head_dim a multiple of {factor:g}"
        yield ("positions",), None, text
    if contract.rotary_scaling is not None:
        for key, text in _find_problems_of_scaling(contract, contract.rotary_scaling):
            yield ("rotary_scaling", key) if key else ("rotary_scaling",), None, text
    yield from _find_problems(contract)


def _find_problems_of_scaling(
    contract: Contract, scaling: StatedScaling
) -> Iterator[tuple[str, str]]:
    """Yield the keys of a scaling with wrong numbers, or "" if one is missing, and advice."""
    kind, (needed, possible) = scaling.kind, NUMBERS[scaling.kind]
    if scaling.factor <= 1:
        yield "factor", f"must be more than 1, not {scaling.factor:g}"
    for each in fields(scaling)[2:]:
        is_given = getattr(scaling, each.name) is not None
        if is_given and each.name not in needed + possible:
            yield each.name, f"has no effect on {kind} scaling: leave it out"
        if not is_given and each.name in needed:
            yield "", f"{kind} scaling needs `{each.name}`: add it"
    if scaling.attention_factor is not None and scaling.attention_factor <= 0:
        yield "attention_factor", f"must be more than 0, not {scaling.attention_factor:g}"
    if kind is ScalingKind.NTK and _may_have_one_pair(contract):
        text = "the exponent d/(d - 2) needs more than one pair: let `size_rules` make head_dim"
        yield "kind", f"{text} large enough; latents, whose rope_dim may be 2, do not work with it"
    if scaling.original_length is not None:
        yield from _find_problems_of_limits(contract, scaling, scaling.original_length)


def _find_problems_of_limits(
    contract: Contract, scaling: StatedScaling, length: int
) -> Iterator[tuple[str, str]]:
    """Check that within the original length some pairs turn often enough, and others do not."""
    (low, slow), (high, fast) = scaling.limits
    if slow <= 0:
        yield low, f"must be more than 0, not {slow:g}"
    elif fast <= slow:
        yield high, f"must be more than {low}, which is {slow:g}, not {fast:g}"
    elif length <= (least := 2 * math.pi * slow):
        text = f"must be more than {least:.4g}, that is 2π · {low}: otherwise all pairs are divided"
        yield "original_length", text
    elif length >= (most := 2 * math.pi * fast * contract.rotary_base):
        text = f"must be less than {most:.4g}, that is 2π · {high} · rotary_base: otherwise all"
        yield "original_length", f"{text} pairs are kept"


def _may_have_one_pair(contract: Contract) -> bool:
    """Return whether the contract allows heads of which at most two coordinates rotate."""
    if contract.stores("W_qr"):
        return True
    share = contract.rotary_share / (2 if contract.stores("lambdas") else 1)
    return any(width * share <= 2 for width in list_widths(contract))


def _find_problems_of_slopes(contract: Contract) -> Iterator[Problem]:
    """Check that the heads tell slopes of two sequences from those of one."""
    heads, rules = (contract.sizes or {}).get("heads"), contract.size_rules
    allows = (lambda _: True) if rules is None else rules.get_test("heads")
    possible = [n for n in range(1, 65) if allows(n) and heads in (None, n)]
    alike = not any(n & (n - 1) for n in possible)
    if contract.positions is Positions.ALIBI_TWO_SEQUENCES and alike:
        text = 'the slopes are those of one sequence where heads are a power of two: write "alibi"'
        yield ("positions",), None, text
    yield from _find_problems(contract)


ROTATIONS = Part(
    name="rotary positions",
    is_in=lambda contract: contract.positions in ROTARY,
    brings=frozenset({Capability.POSITIONS}),
    breaks=frozenset({Capability.PLACELESS, Capability.DOT_PRODUCT}),
    keys=("rotary_base", "rotary_share", "rotary_scaling"),
    missing='rotary positions: write positions = "rotary" or "rotary_neighbours"',
    needed=NEEDED,
    find_problems=_find_problems_of_pairs,
)
ALIBI = Part(
    name="ALiBi",
    is_in=lambda contract: contract.positions in LINEAR,
    brings=frozenset({Capability.POSITIONS}),
    breaks=frozenset({Capability.PLACELESS, Capability.UNBIASED}),
    needed=NEEDED,
    find_problems=_find_problems_of_slopes,
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
