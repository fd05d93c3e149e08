"""All invariants, in the order in which they are tried: form first, then values, then the rest.

Each says by its traits to which contracts it applies; `for_contract` picks those. There are no
others hidden elsewhere: a family lists its own in `ALL`.
"""

from properties.contract import Contract
from properties.families import (
    batch,
    contract,
    device,
    dropout,
    gradients,
    heads,
    history,
    initialisation,
    masking,
    precision,
    purity,
    scale,
    values,
    weights,
)
from properties.property import Property

ALL: tuple[Property, ...] = (
    *contract.ALL,
    *purity.ALL,
    *history.ALL,
    *batch.ALL,
    *values.ALL,
    *masking.ALL,
    *weights.ALL,
    *scale.ALL,
    *heads.ALL,
    *gradients.ALL,
    *dropout.ALL,
    *precision.ALL,
    *device.ALL,
    *initialisation.ALL,
)


def select_for_contract(target_contract: Contract) -> tuple[Property, ...]:
    """The invariants that make sense for a contract."""
    return tuple(invariant for invariant in ALL if invariant.applies_to(target_contract))
