"""Latents: keys and values made of one narrow vector for each token, and positions beside heads.

Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1 (arXiv:2405.04434).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Found, Part, Problem, Quantity, list_taken
from headcheck.properties.parts.plain import PROJECTIONS
from headcheck.properties.parts.positions import ROTARY
from headcheck.properties.parts.weight import BY_HEAD, Draws, HeadSizes, Weight, d_in, one
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.size_rules import parse_sizes

if TYPE_CHECKING:
    from torch import Tensor

    from headcheck.properties.contracts.contract import Contract
    from headcheck.properties.contracts.parameter_mapping import ParameterMapping

BESIDE = ("W_qr", "W_kr")
"""the parameters of what rotates beside heads: a contract has both or none"""
EVEN = "head_dim=even d_latent=even"
USUAL_ROPE_DIM = 4
"""the number of rotated coordinates if a case leaves it open: two pairs with different angles"""


def _draw_turned_queries(draws: Draws) -> Tensor:
    case = draws.case
    return draws.matrix("W_qr", case.heads * case.rope_dim, case.d_in, draws.spread)


def _rope_dim(sizes: HeadSizes) -> int:
    return sizes.rope_dim


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that latents have a layer, and an argument for their width."""
    if not contract.stores("W_down") or "d_latent" not in list_taken(contract):
        text = "latents need W_down in [parameters], and an argument that takes d_latent"
        yield ("arguments",), None, text
    for mapping in contract.mappings:
        keys, held = ("parameters", mapping.path), set(mapping.holds)
        if held & {"W_k", "W_v"} and held - {"W_k", "W_v"}:
            text = "keys and values are made of latents, the others of tokens: store them apart"
            yield keys, None, text
        yield from _check_undivided(mapping, "W_down")


def _check_undivided(mapping: ParameterMapping, *names: str) -> Iterator[Problem]:
    """Check that these parameters are not stored head by head."""
    if set(mapping.holds) & set(names) and (mapping.packing in BY_HEAD or "{head}" in mapping.path):
        text = "W_down, W_qr and W_kr are each one matrix for all heads"
        yield ("parameters", mapping.path), None, text


def _find_problems_beside(contract: Contract) -> Iterator[Problem]:
    """Check that there are latents, and that all that stands beside heads rotates."""
    if not contract.stores("W_qr") or "rope_dim" not in list_taken(contract):
        text = "what rotates beside heads needs W_qr and W_kr in [parameters], and an argument"
        yield ("arguments",), None, f"{text} that takes rope_dim"
    if not contract.stores("W_down"):
        text = "numbers stand beside heads only with latents: where is W_down?"
        yield ("parameters",), None, text
    if contract.positions not in ROTARY or contract.rotary_share != 1:
        text = "with latents all of W_qr and W_kr is rotated: write positions = rotary, no share"
        yield ("positions",), None, text
    if contract.norm or contract.stores("lambdas"):
        text = "norms and lambdas do not say what they do with what stands beside heads"
        yield ("parameters",), None, f"{text}: leave one out"
    for mapping in contract.mappings:
        yield from _check_undivided(mapping, *BESIDE)


def _read_beside(contract: Contract, found: Found) -> Iterator[Contract]:
    """Yield the contract with both orders of pairs: what stands beside heads always rotates.

    Pairs that are read as complex numbers begin at even places only.
    """
    if not contract.stores("W_qr"):
        yield contract
        return
    if found.case.head_dim % 2 == found.case.d_latent % 2 == 0:
        even = contract.with_sizes(parse_sizes(EVEN))
        yield from (replace(even, positions=kind) for kind in ROTARY)


def _copy_tokens(sizes: HeadSizes) -> list[list[int]]:
    """Return a layer with which latents equal the tokens."""
    return [[int(row == column) for column in range(sizes.d_in)] for row in range(sizes.d_in)]


def _turn_one_pair(sizes: HeadSizes) -> list[tuple[int, ...]]:
    """Return a layer whose results are zero but for one pair."""
    return [((0 if row else 2),) * sizes.d_in for row in range(sizes.rope_dim)]


LATENT = Part(
    name="latents",
    is_in=lambda contract: contract.stores("W_down") or "d_latent" in list_taken(contract),
    brings=frozenset({Capability.LATENT}),
    breaks=frozenset({Capability.UNCOMPRESSED}),
    weights=(
        Weight(
            "W_down",
            20,
            lambda draws: draws.matrix("W_down", draws.case.d_latent, draws.case.d_in),
            one,
            lambda sizes: sizes.d_latent,
            d_in,
            PROJECTIONS,
            is_optional=False,
            words="the latents",
            make_example=_copy_tokens,
        ),
    ),
    quantities=(
        Quantity(
            "d_latent",
            lambda rules, case: rules.fit_size("d_latent", case.d_latent or case.d_out // 2 + 1),
            (3, 1, 4, 2, 8),
            words="the width of a latent",
        ),
    ),
    needed={Capability.LATENT: "a parameter must hold W_down"},
    find_problems=_find_problems,
    describe=lambda contract: "keys and values made of latents",
)
TURNED_BESIDE = Part(
    name="rotating numbers beside heads",
    is_in=lambda contract: contract.stores("W_qr") or "rope_dim" in list_taken(contract),
    brings=frozenset({Capability.BESIDE}),
    weights=(
        Weight(
            "W_qr",
            21,
            _draw_turned_queries,
            rows=_rope_dim,
            columns=d_in,
            needs=BESIDE,
            is_optional=False,
            words="the rotated part beside each head's queries",
            make_example=lambda sizes: _turn_one_pair(sizes) * sizes.heads,
        ),
        Weight(
            "W_kr",
            22,
            lambda draws: draws.matrix("W_kr", draws.case.rope_dim, draws.case.d_in, draws.spread),
            one,
            _rope_dim,
            d_in,
            BESIDE,
            is_optional=False,
            words="the rotated key, which all heads share",
            make_example=_turn_one_pair,
        ),
    ),
    quantities=(
        Quantity(
            "rope_dim",
            lambda rules, case: case.rope_dim + case.rope_dim % 2 or USUAL_ROPE_DIM,
            (2, 4, 6),
            words="how many numbers rotate beside a head",
        ),
    ),
    needed={Capability.BESIDE: "parameters must hold W_qr and W_kr"},
    find_problems=_find_problems_beside,
    make_steps=lambda contract, case: {"beside": case.rope_dim},
    read=_read_beside,
)
