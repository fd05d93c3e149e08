"""What a contract and a case say of the equation: who attends to whom, and what it has besides."""

import torch
from torch import Tensor

from properties.case import Case
from properties.contract import ROTARY, Capability, Contract, Positions
from reference import Variant, causal_mask, sliding_window_mask, to_bool_mask


def find_visible(
    contract: Contract,
    case: Case,
    tokens: int,
    mask: Tensor | None = None,
    device: torch.device | None = None,
) -> Tensor | None:
    """Return who may attend to whom: by the causal mask, within a window, or by what is given."""
    if contract.has(Capability.WINDOW):
        return sliding_window_mask(tokens, case.window, device=device)
    if contract.has(Capability.CAUSAL):
        return causal_mask(tokens, device=device)
    return None if mask is None else to_bool_mask(mask)


def get_variant(contract: Contract, case: Case) -> Variant:
    """Return the steps that the equation has in this case besides the plain ones."""
    return Variant(
        rotary=contract.positions in ROTARY,
        base=contract.rotary_base,
        share=contract.rotary_share,
        neighbours=contract.positions is Positions.ROTARY_NEIGHBOURS,
        alibi=contract.positions is Positions.ALIBI,
        softcap=case.softcap,
    )
