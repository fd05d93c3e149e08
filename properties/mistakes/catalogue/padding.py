"""Mistakes about padding: which keys it hides, in which sequence, and the outputs of padding."""

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import define_mistake, require
from headcheck.properties.mistakes.pipeline import (
    PipelineState,
    QKVTensors,
    concatenated_heads,
    head_blocks,
    output_layer,
    tokens,
)
from headcheck.properties.mistakes.steps import scores


def _get_padding_mask(s: PipelineState) -> Tensor | None:
    """Return the mask, of shape (batch, 1, 1, keys), if it is a padding mask."""
    mask = s.inputs.may_attend
    return mask if mask is not None and mask.dim() == 4 and mask.shape[1:3] == (1, 1) else None


def tokens_zeroed(s: PipelineState) -> QKVTensors:
    """Zero padding before it is projected."""
    mask = _get_padding_mask(s)
    return tokens(s) if mask is None else _zero(tokens(s), mask[:, 0].mT)


def projections_zeroed(s: PipelineState) -> QKVTensors:
    """Zero the queries, keys and values of padding."""
    mask = _get_padding_mask(s)
    return head_blocks(s) if mask is None else _zero(head_blocks(s), mask.mT)


def keys_and_values_zeroed(s: PipelineState) -> QKVTensors:
    """Zero the keys and values of padding."""
    query, *_ = head_blocks(s)
    return (query, *projections_zeroed(s)[1:])


def _zero(parts: QKVTensors, is_token: Tensor) -> QKVTensors:
    query, key, value = parts
    return query * is_token, key * is_token, value * is_token


def hidden_from_queries_too(s: PipelineState) -> Tensor | None:
    """Hide padding as keys, and hide everything from padding as queries."""
    mask = _get_padding_mask(s)
    return s.inputs.may_attend if mask is None else mask & mask.mT


def taken_for_last(s: PipelineState) -> Tensor | None:
    """Show the first n keys for a sequence of n tokens, wherever its padding stands."""
    mask = _get_padding_mask(s)
    if mask is None:
        return s.inputs.may_attend
    return torch.arange(mask.shape[-1]) < mask.sum(dim=-1, keepdim=True)


def taken_for_first(s: PipelineState) -> Tensor | None:
    """Show the last n keys for a sequence of n tokens, wherever its padding stands."""
    mask, from_the_end = _get_padding_mask(s), taken_for_last(s)
    return from_the_end if mask is None or from_the_end is None else from_the_end.flip(-1)


def outputs_zeroed(s: PipelineState) -> Tensor:
    """Zero the outputs of padding, after the output layer."""
    mask = _get_padding_mask(s)
    output = output_layer(s)
    return output if mask is None else output * mask[:, 0].mT


def contexts_zeroed(s: PipelineState) -> Tensor:
    """Zero the outputs of padding, before the output layer."""
    mask = _get_padding_mask(s)
    context = concatenated_heads(s)
    return context if mask is None else context * mask[:, 0].mT


TIMES_MASK = "only times:(?i)mask|tok|pad|keep"
LAST_ZERO = "last fill:^-?0"
COUNTED = "only sum"

PADDING = require(
    Capability.PADDING,
    define_mistake(
        "padding_zeroed",
        "Padding is set to zero instead of hidden: the softmax still gives it weight.",
        TIMES_MASK,
    ).simulated_by(
        {"see": tokens_zeroed, "permit": scores.no_mask},
        {"split": projections_zeroed, "permit": scores.no_mask},
        {"split": keys_and_values_zeroed, "permit": scores.no_mask},
    ),
    define_mistake(
        "padding_does_not_attend",
        "The mask acts on the rows of padding, not only on its columns; padding should attend as "
        "any token does.",
        f"{LAST_ZERO} | only fill | {TIMES_MASK}",
    ).simulated_by({"permit": hidden_from_queries_too}, {"merge": contexts_zeroed}),
    define_mistake(
        "padding_taken_for_one_end",
        "Padding is taken to be the last tokens, or the first ones: the mask is counted, but it "
        "says which they are.",
        COUNTED,
    ).simulated_by({"permit": taken_for_last}, {"permit": taken_for_first}),
    define_mistake(
        "outputs_of_padding_zeroed",
        "The outputs of padding are set to zero; they should be computed like those of any token.",
        f"{TIMES_MASK} | {LAST_ZERO}",
    ).simulated_by(finish=outputs_zeroed),
)
