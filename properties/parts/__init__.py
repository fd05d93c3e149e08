"""The parts of attention: each addition to plain attention is one declaration here.

A part says what it adds to a contract (parameters, sizes and limits), which laws of plain attention
no longer hold with it, and what contradicts it. Contracts, the tensors of a case, case sets, checks
of contract files and applicability of properties all iterate over `PARTS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from headcheck.properties.parts.block import BLOCK
from headcheck.properties.parts.context_width import CONTEXT_WIDTH
from headcheck.properties.parts.differential import DIFFERENTIAL
from headcheck.properties.parts.features import FEATURES, SMOOTHED
from headcheck.properties.parts.fixed_length import FIXED_LENGTH
from headcheck.properties.parts.gate import GATE
from headcheck.properties.parts.head_norms import HEAD_NORMS
from headcheck.properties.parts.latents import LATENT, TURNED_BESIDE
from headcheck.properties.parts.made_masks import DOCUMENTS, IN_TURN, LENGTHS
from headcheck.properties.parts.norms import NORMS
from headcheck.properties.parts.output_dropout import OUTPUT_DROPOUT
from headcheck.properties.parts.part import Part, Problem, Quantity
from headcheck.properties.parts.plain import PLAIN_WEIGHTS
from headcheck.properties.parts.positions import ALIBI, ROTATIONS
from headcheck.properties.parts.relative import RELATIVE
from headcheck.properties.parts.residual import RESIDUAL
from headcheck.properties.parts.scores import BLOCKS, SOFTCAP, WINDOW
from headcheck.properties.parts.shared_keys import SHARED_KEYS
from headcheck.properties.parts.sinks import SINKS
from headcheck.properties.parts.weight import Weight
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract

PARTS: tuple[Part, ...] = (
    SHARED_KEYS,
    NORMS,
    ROTATIONS,
    ALIBI,
    WINDOW,
    SOFTCAP,
    FEATURES,
    SMOOTHED,
    SINKS,
    DIFFERENTIAL,
    GATE,
    BLOCKS,
    LATENT,
    TURNED_BESIDE,
    BLOCK,
    LENGTHS,
    DOCUMENTS,
    RELATIVE,
    HEAD_NORMS,
    OUTPUT_DROPOUT,
    CONTEXT_WIDTH,
    RESIDUAL,
    FIXED_LENGTH,
    IN_TURN,
)
"""All parts. The numbers of a case set are drawn in this order: a new part comes last."""

WEIGHTS: Mapping[str, Weight] = {
    weight.name: weight
    for weights in (PLAIN_WEIGHTS, *(part.weights for part in PARTS))
    for weight in weights
}
"""all canonical parameters, the fields of `reference.Parameters`, by name"""
QUANTITIES: Mapping[str, Quantity] = {
    quantity.name: quantity for part in PARTS for quantity in part.quantities
}
"""the sizes and limits of parts, by the field of a case"""
BROUGHT: frozenset[Capability] = frozenset().union(*(part.brings for part in PARTS))
BROKEN: frozenset[Capability] = frozenset().union(*(part.breaks for part in PARTS))
"""the laws of plain attention that some part breaks"""


def brings(contract: Contract, capability: Capability) -> bool:
    """Return whether a part of the contract brings this capability."""
    return any(capability in part.brings and part.is_in(contract) for part in PARTS)


def keeps(contract: Contract, law: Capability) -> bool:
    """Return whether this law of plain attention holds: no part of the contract breaks it."""
    return not any(law in part.breaks and part.is_in(contract) for part in PARTS)


def list_laws(contract: Contract) -> frozenset[Capability]:
    """Return what the parts of the contract bring, and the laws that none of them breaks."""
    parts = [part for part in PARTS if part.is_in(contract)]
    broken = frozenset().union(*(part.breaks for part in parts))
    return (BROKEN - broken).union(*(part.brings for part in parts))


def iter_weights(contract: Contract) -> Iterator[Weight]:
    """Yield the parameters that the parts of a contract add to those of plain attention."""
    for part in PARTS:
        if part.brings <= contract.capabilities:
            for weight in part.weights:
                if contract.stores(weight.name) or (part.brings and not weight.is_optional):
                    yield weight


def find_problems(contract: Contract) -> Iterator[Problem]:
    """Yield what contradicts the parts of a contract as it was written."""
    for part in PARTS:
        if part.is_in(contract):
            yield from part.find_problems(contract)
        else:
            yield from _find_useless_keys(contract, part)


def _find_useless_keys(contract: Contract, part: Part) -> Iterator[Problem]:
    """Yield the keys of a part, and rules for its sizes, that the contract has without the part."""
    ruled = set() if contract.size_rules is None else {r.name for r in contract.size_rules.rules}
    for quantity in part.quantities:
        if quantity.taken in ruled:
            text = f"no argument takes {quantity.taken}, so a rule for it has no effect"
            yield ("size_rules",), None, f"{text}: leave it out"
    for field in fields(contract):
        if field.name in part.keys and getattr(contract, field.name) != field.default:
            yield (field.name,), None, f"belongs to {part.missing}, or leave it out"
