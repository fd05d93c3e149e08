"""Derive the mask and the variant of the equation from a contract and a case."""

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.parts import PARTS
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    Variant,
    causal_lower_right_mask,
    sliding_window_mask,
    to_bool_mask,
)


def find_visible(
    contract: Contract,
    case: Case,
    tokens: int,
    mask: Tensor | None = None,
    device: torch.device | None = None,
    keys: int | None = None,
) -> Tensor | None:
    """Return which token may attend to which, by the causal mask, the window and the given mask.

    If there are more keys than tokens, `keys` is their number, and the tokens are the last of them.
    """
    given = None if mask is None else to_bool_mask(mask)
    if contract.has(Capability.WINDOW):
        both_sides = not hides_later_tokens(contract, case)
        longest = tokens if keys is None else keys
        own = sliding_window_mask(
            tokens, case.window, both_sides=both_sides, keys=longest, device=device
        )
    elif hides_later_tokens(contract, case):
        own = causal_lower_right_mask(tokens, keys or tokens, device=device)
    else:
        return given
    return own if given is None else own & given


def hides_later_tokens(contract: Contract, case: Case) -> bool:
    """Return whether later tokens are hidden, because of the contract or the case."""
    return contract.has(Capability.CAUSAL) or case.causal


def get_variant(contract: Contract, case: Case) -> Variant:
    """Return the steps of the equation in this case in addition to the plain ones."""
    own = (part.make_steps(contract, case) for part in PARTS if part.is_in(contract))
    return Variant(**{name: value for steps in own for name, value in steps.items()})
