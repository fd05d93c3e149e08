"""The mask that a case passes, drawn so that every query may attend to some key."""

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import make_mask
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.terms.call_form import MaskConvention, MaskSource
from headcheck.properties.terms.case import Case


def make_fitting_mask(contract: Contract, case: Case) -> Tensor | None:
    """Draw the mask of a case; combined with other masks, it still leaves every query a key.

    A query that would see no key sees its own, since few contracts define the output of a query
    that sees nothing.
    """
    mask = make_mask(case)
    mask = None if mask is None else restrict_mask(contract.call_form.mask, mask)
    return None if mask is None else show_own_keys(contract, case, mask)


def show_own_keys(contract: Contract, case: Case, mask: Tensor) -> Tensor:
    """Return the mask, in which a query that would see no key sees its own."""
    if find_visible(contract, case, case.tokens) is None:
        return mask
    visible = find_visible(contract, case, case.tokens, mask)
    assert visible is not None, "a mask says what is visible"
    own = torch.diag_embed(~visible.any(-1))
    shown = own.any(-2, keepdim=True) if mask.shape[-2] == 1 else own
    return mask.where(~shown, torch.ones_like(mask))


def restrict_mask(convention: MaskConvention, mask: Tensor) -> Tensor:
    """Return a mask that can be given in this way: one of first keys, of documents, or in turn."""
    if convention.in_turn and mask.dim() == 4:
        batch = len(mask)
        period = next((n for n in range(2, batch) if batch % n == 0), batch)
        return mask[:period].repeat(batch // period, 1, 1, 1)
    if convention.given_as is MaskSource.MASK:
        return mask
    keep = mask != 0
    if convention.given_as is MaskSource.LENGTHS:
        return keep.sort(dim=-1, descending=True, stable=True).values
    # A key that the first query may not attend to begins a new document.
    numbers = (~keep[..., :1, :]).cumsum(-1)
    return numbers == numbers.mT
