"""The mask that a case passes, drawn so that every query may attend to some key."""

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import make_mask
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.terms.case import Case


def make_fitting_mask(contract: Contract, case: Case) -> Tensor | None:
    """Draw the mask of a case; combined with other masks, it still leaves every query a key.

    A query that would see no key sees its own, since few contracts define the output of a query
    that sees nothing.
    """
    mask = make_mask(case)
    if mask is None or find_visible(contract, case, case.tokens) is None:
        return mask
    visible = find_visible(contract, case, case.tokens, mask)
    assert visible is not None, "a mask says what is visible"
    own = torch.diag_embed(~visible.any(-1))
    shown = own.any(-2, keepdim=True) if mask.shape[-2] == 1 else own
    return mask.where(~shown, torch.ones_like(mask))
