"""The results of a pipeline's steps, and functions of tensors of any shape that steps share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headcheck.properties.mistakes.attention_inputs import AttentionInputs, QKVTensors
from headcheck.reference.multi_head import Parameters


@dataclass(eq=False)
class PipelineState:
    """The results of the steps computed so far."""

    inputs: AttentionInputs
    seen: QKVTensors = field(init=False)  # batch tokens d_in, each
    entered: QKVTensors = field(init=False)  # in a block normed
    projected: QKVTensors = field(init=False)  # batch tokens d_out, each
    normed_whole: QKVTensors = field(init=False)  # the same, in norms over all heads
    split: QKVTensors = field(init=False)  # batch heads tokens head_dim, each
    roles: QKVTensors = field(init=False)  # the same: query, key, value
    normed: QKVTensors = field(init=False)
    appended: QKVTensors = field(init=False)  # with what is turned beside heads, if anything is
    placed: QKVTensors = field(init=False)
    shared: QKVTensors = field(init=False)  # keys and values for every head
    halved: QKVTensors = field(init=False)  # in two maps, queries and keys of twice the heads
    mapped: QKVTensors = field(init=False)  # in linear attention, features of queries and keys
    raw_scores: Tensor = field(init=False)  # batch heads tokens tokens
    scaled: Tensor = field(init=False)
    scores: Tensor = field(init=False)
    visible: Tensor | None = field(init=False)
    masked_scores: Tensor = field(init=False)
    maps: Tensor = field(init=False)
    weights: Tensor = field(init=False)
    applied_weights: Tensor = field(init=False)
    averages: Tensor = field(init=False)  # batch heads tokens head_dim
    head_contexts: Tensor = field(init=False)  # the same, through a norm of what heads give
    merged: Tensor = field(init=False)  # batch tokens d_out
    context: Tensor = field(init=False)  # the same, through the gate
    attended: Tensor = field(init=False)  # through the output layer
    added: Tensor = field(init=False)  # in a block to the tokens, and so on:
    renormed: Tensor = field(init=False)
    hidden: Tensor = field(init=False)  # batch tokens d_hidden
    active: Tensor = field(init=False)
    forwarded: Tensor = field(init=False)  # batch tokens d_out
    output: Tensor = field(init=False)
    answer: tuple[Tensor, ...] = field(init=False)

    def copy(self) -> "PipelineState":
        """Return a copy from which to continue. Much faster than `copy.copy`."""
        other = PipelineState.__new__(PipelineState)
        other.__dict__.update(self.__dict__)
        return other

    @property
    def x(self) -> Tensor:
        """The tokens from which the queries are made."""
        return self.entered[0]

    @property
    def query(self) -> Tensor:
        """The queries, which the scores compare with the keys."""
        return self.mapped[0]

    @property
    def key(self) -> Tensor:
        """The keys, with which the scores compare the queries."""
        return self.mapped[1]

    @property
    def value(self) -> Tensor:
        """The values, of which the weights form averages."""
        return self.mapped[2]

    @property
    def p(self) -> Parameters:
        """The weights of the layers."""
        return self.inputs.parameters


# ------------------------------------------------------------- of any shape, so not annotated


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X Wᵀ + b."""
    return x @ weight.mT if bias is None else x @ weight.mT + bias


def map_qkv(function: Callable[[Tensor], Tensor], tensors: Iterable[Tensor]) -> QKVTensors:
    """Apply a function to queries, keys and values, but only once to the same tensor."""
    q, k, v = tensors
    new_q = function(q)
    new_k = new_q if k is q else function(k)
    new_v = new_q if v is q else new_k if v is k else function(v)
    return new_q, new_k, new_v


def map_result(function: Callable[[Tensor], Tensor], result: Tensor | QKVTensors) -> object:
    """Apply a function to the result of a step, which is one tensor or three."""
    return function(result) if isinstance(result, Tensor) else map_qkv(function, result)


def split_heads(t: Tensor, heads: int) -> Tensor:
    """Split columns into a block for each head: (batch, heads, tokens, head_dim)."""
    *size, width = t.shape
    return t.reshape(*size, heads, width // heads).transpose(-3, -2)


def merge_heads(t: Tensor) -> Tensor:
    """Lay the heads side by side again."""
    return t.transpose(-3, -2).flatten(-2)


def softmax_with_sinks(scores: Tensor, sinks: Tensor) -> Tensor:
    """Take the softmax over each row of scores and its head's sink, which comes last."""
    column = sinks.view(-1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
