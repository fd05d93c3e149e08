"""The mask that a case passes, drawn so that every query may attend to some key."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import make_mask
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.subject import Chunk
from headcheck.properties.terms.call_form import MaskConvention, MaskSource
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case


def make_fitting_mask(contract: Contract, case: Case) -> Tensor | None:
    """Draw the mask of a case; combined with other masks, it still leaves every query a key.

    A query that would see no key sees its own, since few contracts define the output of a query
    that sees nothing.
    """
    mask = make_mask(case)
    mask = None if mask is None else restrict_mask(contract.call_form.mask, mask)
    if mask is not None and _counts_places(contract):
        mask = _hide_last(mask)
    return None if mask is None else show_own_keys(contract, case, mask)


def _counts_places(contract: Contract) -> bool:
    """Whether positions may be counted over all keys, or over those that the mask shows.

    Both agree if the hidden keys are the last ones.
    """
    return contract.call_form.mask.keys_only and contract.has(Capability.POSITIONS)


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
        return _hide_last(keep)
    # A key that the first query may not attend to begins a new document.
    numbers = (~keep[..., :1, :]).cumsum(-1)
    return numbers == numbers.mT


def add_required_masks(convention: MaskConvention, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """Return the chunks, each with a mask that hides none of the keys so far if calls need one."""
    masked, keys = list[Chunk](), list[int]()
    for chunk in chunks:
        batch, tokens = chunk.tokens.shape[:2]
        keys.append(tokens + (0 if chunk.after is None else keys[chunk.after]))
        shape = (batch, 1, 1) if convention.keys_only else (1, 1, tokens)
        seen = torch.ones(*shape, keys[-1], dtype=torch.bool)
        masked.append(replace(chunk, mask=seen if chunk.mask is None else chunk.mask))
    return masked if convention.required else chunks


def _hide_last(mask: Tensor) -> Tensor:
    """Return a mask that hides as many keys in each row as this one, but the last ones."""
    return mask.sort(dim=-1, descending=True, stable=True).values
