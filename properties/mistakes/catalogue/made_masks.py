"""Mistakes about masks that a module makes of valid lengths, or of packed documents."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.catalogue.mistake import define_mistake, require
from headcheck.properties.mistakes.pipeline import PipelineState
from headcheck.properties.terms.capability import Capability

Permit = Callable[[PipelineState], Tensor | None]


# ------------------------------------------------------------------------------- valid lengths


def _make_from_lengths(make: Callable[[PipelineState, Tensor, Tensor], Tensor]) -> Permit:
    """Return a step that makes the mask of each query's length and of the keys' numbers."""

    def permit(s: PipelineState) -> Tensor | None:
        mask = s.inputs.may_attend
        if mask is None or s.inputs.causal or mask.dim() != 4:
            return mask
        return make(s, mask.sum(-1, keepdim=True), torch.arange(mask.shape[-1]))

    return permit


def longer_by(count: int) -> Permit:
    """Show so many keys more than the length, or fewer if it is negative."""
    return _make_from_lengths(lambda _, lengths, keys: keys < lengths + count)


def _show_those_of_other_sequences(s: PipelineState, lengths: Tensor, keys: Tensor) -> Tensor:
    heads, batch = s.inputs.heads, len(lengths)
    rows = torch.arange(batch * heads) % batch
    return keys < lengths[rows].reshape(batch, heads, *lengths.shape[2:])


repeated_in_the_wrong_order = _make_from_lengths(_show_those_of_other_sequences)
"""Repeat all lengths once for each head, although heads follow one another in each sequence."""
# ---------------------------------------------------------------------------- packed documents


def _make_from_starts(make: Callable[[Tensor, Tensor], Tensor]) -> Permit:
    """Return a step that makes the mask of where the documents of queries and of keys begin."""

    def permit(s: PipelineState) -> Tensor | None:
        mask = s.inputs.may_attend
        if mask is None or mask.dim() != 4 or mask.shape[-2] != mask.shape[-1]:
            return mask
        starts = mask.to(torch.int64).argmax(-1, keepdim=True)
        shown = make(starts, starts.mT)
        return shown.tril() if s.inputs.causal else shown

    return permit


earlier_documents_too = _make_from_starts(lambda queries, keys: keys <= queries)


def _begin_late(queries: Tensor, keys: Tensor) -> Tensor:
    late = torch.cat([queries[..., :1, :], queries[..., :-1, :]], dim=-2)
    return late == late.mT


begun_a_token_late = _make_from_starts(_begin_late)
"""Count the first token of each document with the document before it."""


# ------------------------------------------------------------------------------- masks in turn


def one_after_another(s: PipelineState) -> Tensor | None:
    """Give a mask to as many neighbouring sequences as there are images."""
    masks = s.inputs.may_attend
    if masks is None or masks.dim() != 4:
        return masks
    batch = len(masks)
    divisors = (n for n in range(1, batch) if batch % n == 0)
    count = next((n for n in divisors if torch.equal(masks[n:], masks[:-n])), batch)
    return masks[:count].repeat_interleave(batch // count, dim=0)


MADE_MASKS = (
    *require(
        Capability.IN_TURN,
        define_mistake(
            "masks_of_other_windows",
            "Windows get the masks of other windows: those of an image follow one another in the "
            "batch, so when the batch is cut, the axis of images comes before that of windows.",
        ).simulated_by(permit=one_after_another),
    ),
    *require(
        Capability.LENGTHS,
        define_mistake(
            "one_key_more_than_the_length",
            "One key more than the length is visible: with a length of n the keys 0 to n - 1 are.",
        ).simulated_by(permit=longer_by(1)),
        define_mistake(
            "one_key_less_than_the_length",
            "The last key of each length is hidden: with a length of n the keys 0 to n - 1 are "
            "visible.",
        ).simulated_by(permit=longer_by(-1)),
        define_mistake(
            "lengths_of_other_sequences",
            "The lengths are repeated for the heads in the wrong order, so heads get the lengths "
            "of other sequences: the heads of one sequence follow one another.",
        ).simulated_by(permit=repeated_in_the_wrong_order),
    ),
    *require(
        Capability.DOCUMENTS,
        define_mistake(
            "earlier_documents_visible",
            "Tokens see earlier documents, too; they should see their own only.",
        ).simulated_by(permit=earlier_documents_too),
        define_mistake(
            "documents_begin_late",
            "The first token of each document is counted with the document before it.",
        ).simulated_by(permit=begun_a_token_late),
    ),
)
