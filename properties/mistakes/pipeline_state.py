"""The inputs of a pipeline, the results of its steps, and functions of tensors that steps share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcheck.reference.multi_head import Parameters
from headcheck.reference.variant import PLAIN, Variant

QKVTensors = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class AttentionInputs:
    """The input, parameters and mask from which attention is computed."""

    x: Float[Tensor, "batch tokens d_in"]
    parameters: Parameters
    heads: int
    may_attend: Bool[Tensor, "*#lead #tokens #tokens"] | None
    scale: float
    context_length: int
    causal: bool = False
    """whether the module has its own mask; otherwise the caller passes one"""
    wanted: tuple[str, ...] = ("output",)
    """names of the results to return: `output`, `weights`, `logsumexp`, or the `matrix` of the only
    head's weights"""
    variant: Variant = PLAIN
    """the steps of the attention in addition to the plain ones"""
    window: int = 0
    """the most tokens that each token may see; 0 for all"""
    block: int = 0
    """how many keys are computed at a time; 0 for all"""
    others: tuple[Float[Tensor, "batch others d_in"], ...] = ()
    """the tokens of keys and values in cross-attention: one tensor for both, or two; empty if they
    are x
    """

    @property
    def d_in(self) -> int:
        """The width of a token."""
        return self.x.shape[-1]

    @property
    def tokens(self) -> int:
        """The length of a sequence."""
        return self.x.shape[-2]

    @property
    def sources(self) -> QKVTensors:
        """The tokens from which queries, keys and values are made."""
        return (self.x, self.others[0], self.others[-1]) if self.others else (self.x,) * 3

    @property
    def keys(self) -> int:
        """The length of the sequence to which queries attend."""
        return self.sources[1].shape[-2]

    @property
    def earlier(self) -> int:
        """How many keys precede the first query's own key: causal queries are the last tokens."""
        return self.keys - self.tokens if self.causal else 0

    @property
    def d_out(self) -> int:
        """The width of all heads together."""
        return self.parameters.W_q.shape[0]

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.d_out // self.heads

    @property
    def kv_heads(self) -> int:
        """The number of heads of keys and values: smaller than `heads` if heads share them."""
        return self.parameters.W_k.shape[0] // self.head_dim

    @property
    def width(self) -> int:
        """How many numbers of a query are compared with a key: half of a head with two maps.

        With latents these are a head's own coordinates and the rotating ones beside them.
        """
        own = self.head_dim if self.parameters.lambdas is None else self.head_dim // 2
        return own + self.variant.beside


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
