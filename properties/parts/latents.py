"""Latents: keys and values made of one narrow vector for each token, with positions beside heads.

Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1 (arXiv:2405.04434).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem, Quantity, list_taken
from headcheck.properties.parts.positions import ROTARY
from headcheck.properties.parts.weight import BY_HEAD, Draws, HeadSizes, Weight, d_in, one
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import SizeRules

if TYPE_CHECKING:
    from torch import Tensor

    from headcheck.properties.contracts.contract import Contract
    from headcheck.properties.contracts.parameter_mapping import ParameterMapping

LATENTS = ("W_down", "W_qr", "W_kr")
"""the parameters of latents: a contract has all of them or none"""
WIDTHS = frozenset({"d_latent", "rope_dim"})
"""the quantities that arguments of a module with latents take"""
USUAL_ROPE_DIM = 4
"""the number of rotated coordinates if a case leaves it open: two pairs with different angles"""


def _draw_down(draws: Draws) -> Tensor:
    return draws.matrix("W_down", draws.case.d_latent, draws.case.d_in)


def _draw_turned_queries(draws: Draws) -> Tensor:
    case = draws.case
    return draws.matrix("W_qr", case.heads * case.rope_dim, case.d_in, draws.spread)


def _draw_turned_key(draws: Draws) -> Tensor:
    return draws.matrix("W_kr", draws.case.rope_dim, draws.case.d_in, draws.spread)


def _rope_dim(sizes: HeadSizes) -> int:
    return sizes.rope_dim


def _choose_width(rules: SizeRules, case: Case) -> int:
    return rules.fit_size("d_latent", case.d_latent or case.d_out // 2 + 1)


def _choose_turned(rules: SizeRules, case: Case) -> int:
    """Return an even number of rotating columns."""
    return case.rope_dim + case.rope_dim % 2 or USUAL_ROPE_DIM


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that latents come with a rotating part beside heads, whose width an argument sets."""
    if not contract.stores("W_down") or not list_taken(contract) >= WIDTHS:
        text = "latents need W_down in [parameters], and arguments that take d_latent and rope_dim"
        yield ("arguments",), None, text
    if contract.positions not in ROTARY or contract.rotary_share != 1:
        text = "with latents all of W_qr and W_kr is rotated: write positions = rotary, no share"
        yield ("positions",), None, text
    others = bool(contract.norm) or Capability.CROSS in contract.capabilities
    if contract.stores("lambdas") or others or "kv_heads" in list_taken(contract):
        text = "latents do not work with norms, lambdas, kv_heads or other tokens"
        yield ("parameters",), None, text
    for mapping in contract.mappings:
        yield from _check_mapping(mapping)


def _check_mapping(mapping: ParameterMapping) -> Iterator[Problem]:
    keys, held = ("parameters", mapping.path), set(mapping.holds)
    if held & {"W_k", "W_v"} and held - {"W_k", "W_v"}:
        text = "keys and values are made of latents, the others of tokens: store them apart"
        yield keys, None, text
    if held & set(LATENTS) and (mapping.packing in BY_HEAD or "{head}" in mapping.path):
        yield keys, None, "W_down, W_qr and W_kr are each one matrix for all heads"


def _copy_tokens(sizes: HeadSizes) -> list[list[int]]:
    """Return a layer with which latents equal the tokens."""
    return [[int(row == column) for column in range(sizes.d_in)] for row in range(sizes.d_in)]


def _turn_one_pair(sizes: HeadSizes) -> list[tuple[int, ...]]:
    """Return a layer whose results are zero but for one pair."""
    return [((0 if row else 2),) * sizes.d_in for row in range(sizes.rope_dim)]


LATENT = Part(
    name="latents",
    is_in=lambda contract: contract.stores("W_down") or bool(list_taken(contract) & WIDTHS),
    brings=frozenset({Capability.LATENT}),
    breaks=frozenset({Capability.UNCOMPRESSED}),
    weights=(
        Weight(
            "W_down",
            20,
            _draw_down,
            one,
            lambda sizes: sizes.d_latent,
            d_in,
            LATENTS,
            is_optional=False,
            words="the latents",
            make_example=_copy_tokens,
        ),
        Weight(
            "W_qr",
            21,
            _draw_turned_queries,
            rows=_rope_dim,
            columns=d_in,
            needs=LATENTS,
            is_optional=False,
            words="the rotated part beside each head's queries",
            make_example=lambda sizes: _turn_one_pair(sizes) * sizes.heads,
        ),
        Weight(
            "W_kr",
            22,
            _draw_turned_key,
            one,
            _rope_dim,
            d_in,
            LATENTS,
            is_optional=False,
            words="the rotated key, which all heads share",
            make_example=_turn_one_pair,
        ),
    ),
    quantities=(
        Quantity("d_latent", _choose_width, (3, 1, 4, 2, 8)),
        Quantity("rope_dim", _choose_turned, (2, 4, 6)),
    ),
    needed={Capability.LATENT: "parameters must hold W_down, W_qr and W_kr"},
    find_problems=_find_problems,
    make_steps=lambda contract, case: {"beside": case.rope_dim},
)
