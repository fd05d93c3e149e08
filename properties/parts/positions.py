"""Positions: queries and keys rotate by their positions, or scores fall with the distance.

Sources: Su et al. 2021, RoFormer, section 3.2.2 (arXiv:2104.09864); Press et al. 2022, ALiBi,
section 3 (arXiv:2108.12409). `properties.parts.relative` has learned numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headcheck.properties.parts.part import Part, Problem, list_widths, may_be_odd
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract
    from headcheck.reference import RotaryScaling


class Positions(StrEnum):
    """How the answer depends on the positions of tokens, apart from the mask."""

    NONE = "not at all"
    ROTARY = "queries and keys are rotated, in halves"
    ROTARY_NEIGHBOURS = "queries and keys are rotated, in pairs of neighbours"
    ALIBI = "scores fall with the distance"
    ALIBI_TWO_SEQUENCES = "scores fall with the distance, by slopes of two sequences"
    RELATIVE = "scores get a learned number for the distance"
    WINDOWS = "scores get a learned number for the offset in a window"
    PAIRS = "scores get a learned number for each pair of positions"


class ScalingKind(StrEnum):
    """How rotary frequencies are scaled; `reference.rotary_scaling` has the equations."""

    LINEAR = "linear"
    NTK = "ntk"
    YARN = "yarn"
    LLAMA3 = "llama3"


SCALING_WORDS = {
    ScalingKind.LINEAR: "scaled linearly",
    ScalingKind.NTK: "scaled by NTK",
    ScalingKind.YARN: "scaled by YaRN",
    ScalingKind.LLAMA3: "scaled as in Llama 3.1",
}


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

    def make_steps(self) -> RotaryScaling:
        """Return the scaling of the equation, with the usual numbers that a contract omits."""
        from headcheck.reference import RotaryScaling

        if self.original_length is None:
            return RotaryScaling(self.kind.value, self.factor)
        (_, slow), (_, fast) = self.limits
        given = self.kind.value, self.factor, self.original_length, fast, slow, self.table_factor
        return RotaryScaling(*given, truncate=self.truncate is not False)


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

PLACES = {
    Positions.ROTARY: "number `i` with number `i` plus half",
    Positions.ROTARY_NEIGHBOURS: "number `2i` with number `2i + 1`",
}
SHARE_WORDS = {0.5: "half", 0.25: "a quarter", 0.75: "three quarters"}
ROTARY = (Positions.ROTARY, Positions.ROTARY_NEIGHBOURS)
LINEAR = (Positions.ALIBI, Positions.ALIBI_TWO_SEQUENCES)
NEEDED = {Capability.POSITIONS: 'write positions = "rotary", "alibi" or "relative"'}


def find_problems_of_places(contract: Contract) -> Iterator[Problem]:
    """Check that queries and keys have common positions."""
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
    yield from find_problems_of_places(contract)


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
    yield from find_problems_of_places(contract)


def _rotate(contract: Contract, case: Case) -> Mapping[str, Any]:
    scaling = contract.rotary_scaling
    return {
        "rotary": True,
        "base": contract.rotary_base,
        "share": contract.rotary_share,
        "scaling": None if scaling is None else scaling.make_steps(),
        "neighbours": contract.positions is Positions.ROTARY_NEIGHBOURS,
    }


def _describe_rotations(contract: Contract) -> str:
    halves = contract.positions is Positions.ROTARY
    said = f"rotary positions (in {'halves' if halves else 'pairs of neighbours'}"
    if (scaling := contract.rotary_scaling) is not None:
        said = f"{said}, {SCALING_WORDS[scaling.kind]}, factor {scaling.factor:g}"
    if contract.rotary_share == 1:
        return f"{said})"
    share = SHARE_WORDS.get(contract.rotary_share, f"{contract.rotary_share:g}")
    return f"{said}) of {share} of each head"


def _list_sentences_of_rotations(contract: Contract) -> Iterator[str]:
    part = "" if contract.rotary_share == 1 else f"first {contract.rotary_share:.4g} of the "
    yield (
        f"\nThe {part}numbers of each query and key are rotated in pairs, "
        f"{PLACES[contract.positions]}: pair `i` of `n` numbers at position `p`, from 0, by "
        f"`p · {contract.rotary_base:g}^(-2i/n)`."
    )
    if contract.rotary_scaling is not None:
        yield _describe_scaling(contract.rotary_scaling, contract.rotary_base)


def _describe_scaling(scaling: StatedScaling, base: float) -> str:
    """Return how frequencies, the angles of a pair for each token, are scaled."""
    factor, length = f"{scaling.factor:g}", scaling.original_length
    if scaling.kind is ScalingKind.LINEAR:
        return f"All frequencies are divided by {factor}."
    if scaling.kind is ScalingKind.NTK:
        return f"Before that, the base is multiplied by `{factor}^(n/(n - 2))`."
    (_, slow), (_, fast) = scaling.limits
    blend = f"A frequency `f` becomes `s f + (1 - s) f / {factor}`"
    if scaling.kind is ScalingKind.LLAMA3:
        turns = f"`r = {length} f / 2π`"
        share = f"`s = (r - {slow:g}) / ({fast:g} - {slow:g})`, limited to 0 … 1"
        return f"{blend}, where {turns} and {share}."
    ends = "" if scaling.truncate is False else ", rounded down for the first and up for the last"
    return (
        f"{blend}, where `s` falls linearly in `i` from 1 to 0, from pair `c({fast:g})` to pair "
        f"`c({slow:g})`, and `c(t) = n ln({length} / 2πt) / (2 ln {base:g})`{ends}. "
        f"Cosines and sines are multiplied by {scaling.table_factor:.6g}."
    )


ROTATIONS = Part(
    name="rotary positions",
    is_in=lambda contract: contract.positions in ROTARY,
    brings=frozenset({Capability.POSITIONS}),
    breaks=frozenset({Capability.PLACELESS, Capability.DOT_PRODUCT}),
    keys=("rotary_base", "rotary_share", "rotary_scaling"),
    missing='rotary positions: write positions = "rotary" or "rotary_neighbours"',
    needed=NEEDED,
    find_problems=_find_problems_of_pairs,
    make_steps=_rotate,
    describe=_describe_rotations,
    list_sentences=_list_sentences_of_rotations,
)


def _describe_slopes(contract: Contract) -> str:
    two = contract.positions is Positions.ALIBI_TWO_SEQUENCES
    return f"scores that fall with the distance (ALiBi{', two sequences' if two else ''})"


def _list_sentences_of_distances(contract: Contract) -> Iterator[str]:
    if contract.positions is Positions.ALIBI:
        yield "\nHead `h` of `n`, from 1, adds `-2^(-8h/n)` times the distance to each score."
        return
    yield (
        "\nEach head subtracts a slope times the distance from each score. With `p` the largest "
        "power of two up to the number of heads, the slope of head `h`, from 1, is `2^(-8h/p)`; "
        "that of the `j`-th head after these is `2^(-4(2j-1)/p)`."
    )


ALIBI = Part(
    name="ALiBi",
    is_in=lambda contract: contract.positions in LINEAR,
    brings=frozenset({Capability.POSITIONS}),
    breaks=frozenset({Capability.PLACELESS, Capability.UNBIASED}),
    needed=NEEDED,
    find_problems=_find_problems_of_slopes,
    make_steps=lambda contract, case: {
        "alibi": True,
        "two_sequences": contract.positions is Positions.ALIBI_TWO_SEQUENCES,
    },
    describe=_describe_slopes,
    list_sentences=_list_sentences_of_distances,
)
