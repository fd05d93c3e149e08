"""All properties, in the order in which they are checked.

Properties of the form come first, on the plainest cases. Then come one property for each
peculiarity, the properties of values, and all others.

A property lists the capabilities that a contract must have; `select_for_contract` compares them
with those of a contract.
"""

from collections.abc import Sequence
from types import ModuleType

from headcheck.properties.contracts.contract import Contract
from headcheck.properties.families import (
    alignment,
    arguments,
    backward,
    batch,
    constructor,
    contract,
    cross,
    decoding,
    device,
    differential,
    dropout,
    dropout_sizes,
    dropped_pairs,
    forgetting,
    gates,
    given_scores,
    gradients,
    half_positions,
    heads,
    hidden,
    history,
    initialisation,
    latents,
    linear,
    masking,
    online,
    padding,
    precision,
    purity,
    results,
    scale,
    sinks,
    sizes,
    training,
    transfer,
    transformer_block,
    values,
    variants,
    weights,
)
from headcheck.properties.property import Property
from headcheck.properties.terms import peculiarity

FAMILIES = (
    contract, constructor, results, transfer, purity, history, batch, cross, values, sizes,
    masking, padding, given_scores, decoding, arguments, forgetting, latents,
    variants, weights, sinks, differential, linear, scale, heads, gradients, alignment, online,
    backward, hidden, gates, transformer_block, dropout, dropout_sizes, training, precision,
    half_positions, dropped_pairs, device, initialisation,
)  # fmt: skip


def list_properties(family: ModuleType) -> tuple[Property, ...]:
    """Return the properties that a module defines, in their order, without those it imports."""
    named = (value for value in vars(family).values() if isinstance(value, Property))
    return tuple(prop for prop in named if prop.check.__module__ == family.__name__)


def _put_peculiarities_after_form(properties: Sequence[Property]) -> tuple[Property, ...]:
    about = {prop.about: prop for prop in properties if prop.about is not None}
    early = (*contract.FORM, *(about[each] for each in peculiarity.ALL))
    return (*early, *(prop for prop in properties if prop not in early))


ALL = _put_peculiarities_after_form([p for each in FAMILIES for p in list_properties(each)])


def select_for_contract(target_contract: Contract) -> tuple[Property, ...]:
    """Return the properties that make sense for a contract."""
    return tuple(prop for prop in ALL if prop.applies_to(target_contract))
