"""Attention that never holds a whole row of scores: a second, independent oracle.

Theory. The softmax of a row needs its maximum and its sum, and both can be updated while the keys
are processed in blocks. With m the largest score so far, l = Σ exp(s_j - m) and a = Σ exp(s_j - m)
v_j, a block that raises the maximum to m' multiplies l and a by exp(m - m') first; at the end the
output is a / l.

Sources: Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"
(arXiv:1805.02867); Dao et al. 2022, "FlashAttention" (arXiv:2205.14135), which tiles the same
recurrence.

This module calls no function of `reference.attention`, and splits and merges no heads, so the two
oracles are unlikely to share a mistake. They agree up to a few units in the last place.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcheck.reference.multi_head import Parameters


def online_attention(
    query: Float[Tensor, "*batch q d_k"],
    key: Float[Tensor, "*batch k d_k"],
    value: Float[Tensor, "*batch k d_v"],
    may_attend: Bool[Tensor, "*#batch #q #k"] | None = None,
    scale: float | None = None,
    block: int = 1,
    sink: Float[Tensor, ""] | None = None,
) -> Float[Tensor, "*batch q d_v"]:
    """Average the values while processing `block` keys at a time.

    A sink, a finite score without a key, is processed first: it has no value, so the average is
    smaller by its share.
    A query that may attend to no key gets zeros, in the output and in every gradient.
    Raises ValueError for a block below 1.

    Source: Milakov & Gimelshein 2018, algorithm 3 (arXiv:1805.02867).
    """
    if block < 1:
        raise ValueError(f"online_attention: block is {block}; give 1 key per block or more")
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    rows, keys = query.shape[:-1], key.shape[-2]
    largest = query.new_full((*rows, 1), -math.inf)
    total = query.new_zeros((*rows, 1))
    mixed = query.new_zeros((*rows, value.shape[-1]))
    if sink is not None:
        largest = largest.maximum(sink.detach())
        total = total + torch.exp(sink - largest)
    for start in range(0, keys, block):
        here = slice(start, start + block)
        scores = torch.einsum("...qd,...kd->...qk", query, key[..., here, :]) * scale
        if may_attend is not None:
            permitted = may_attend.expand(*rows, keys)[..., here]
            scores = torch.where(permitted, scores, -math.inf)
        # The output does not depend on the shift, so neither does its gradient: detach it.
        raised = torch.maximum(largest, scores.detach().amax(dim=-1, keepdim=True))
        # Before its first permitted key a row has no maximum; -inf - -inf would be NaN.
        shift = torch.where(raised == -math.inf, 0.0, raised)
        rescale = torch.exp(largest - shift)
        exponentials = torch.exp(scores - shift)
        total = total * rescale + exponentials.sum(dim=-1, keepdim=True)
        mixed = mixed * rescale + exponentials @ value[..., here, :]
        largest = raised
    # The largest score contributes exp(0) = 1: a total of zero means no permitted key, and no sink.
    return mixed / torch.where(total == 0, 1.0, total)


def online_multi_head_attention(
    x: Float[Tensor, "*batch tokens d_in"],
    parameters: Parameters,
    heads: int,
    may_attend: Bool[Tensor, "*#lead #tokens #tokens"] | None = None,
    block: int = 1,
) -> Float[Tensor, "*batch tokens d_out"]:
    """Compute multi-head attention one head after the other, each from its own rows of weights.

    The outputs of the heads are summed, output = Σ_h context_h W_o,hᵀ + b_o; without W_o they are
    concatenated. The mask broadcasts to (*batch, heads, tokens, tokens). Raises ValueError when the
    heads do not divide d_out, and for a block below 1.
    """
    d_out, tokens = parameters.W_q.shape[0], x.shape[-2]
    if heads < 1 or d_out % heads:
        raise ValueError(
            f"online_multi_head_attention: {heads} heads do not divide d_out={d_out}; "
            "choose a number of heads that does"
        )
    contexts = []
    for head in range(heads):
        rows = slice(head * d_out // heads, (head + 1) * d_out // heads)
        mask = None
        if may_attend is not None:
            mask = may_attend.expand(*x.shape[:-2], heads, tokens, tokens)[..., head, :, :]
        query, key, value = _project(x, parameters, rows)
        sink = None if parameters.sinks is None else parameters.sinks[head]
        if parameters.lambdas is None:
            context = online_attention(query, key, value, mask, block=block, sink=sink)
        else:
            halves = zip(query.chunk(2, dim=-1), key.chunk(2, dim=-1), strict=True)
            first, second = (online_attention(q, k, value, mask, block=block) for q, k in halves)
            context = first - parameters.lambdas[head] * second
        contexts.append(context * _open_gate(x, parameters, rows))
    return _mix(contexts, parameters)


def _project(x: Tensor, parameters: Parameters, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value of the head that owns these rows of the weights."""

    def projection(weight: Tensor, bias: Tensor | None) -> Tensor:
        product = torch.einsum("...i,oi->...o", x, weight[rows])
        return product if bias is None else product + bias[rows]

    p = parameters
    return projection(p.W_q, p.b_q), projection(p.W_k, p.b_k), projection(p.W_v, p.b_v)


def _open_gate(x: Tensor, parameters: Parameters, rows: slice) -> Tensor:
    """Return the gate of the head that owns these rows; 1 if there is no gate."""
    if parameters.W_gate is None:
        return x.new_ones(())
    numbers = torch.arange(len(parameters.W_q))[rows] * len(parameters.W_gate)
    own = numbers // len(parameters.W_q)  # of one gate for each head the same for all its numbers
    asked = torch.einsum("...i,oi->...o", x, parameters.W_gate[own])
    asked = asked if parameters.b_gate is None else asked + parameters.b_gate[own]
    return 1 / (1 + torch.exp(-asked))


def _mix(contexts: list[Tensor], parameters: Parameters) -> Tensor:
    """Sum the contributions of the heads, each through its own columns of W_o."""
    if parameters.W_o is None:
        return torch.cat(contexts, dim=-1)
    columns = parameters.W_o.chunk(len(contexts), dim=1)
    pairs = zip(contexts, columns, strict=True)
    output = torch.stack([torch.einsum("...i,oi->...o", c, w) for c, w in pairs]).sum(dim=0)
    return output if parameters.b_o is None else output + parameters.b_o


def recurrent_attention(
    query: Float[Tensor, "*batch tokens d_k"],
    key: Float[Tensor, "*batch tokens d_k"],
    value: Float[Tensor, "*batch tokens d_v"],
) -> Float[Tensor, "*batch tokens d_v"]:
    """Compute causal linear attention one token after the other, from features of queries and keys.

    Two sums represent all earlier tokens, whatever their number: S = Σ k vᵀ and z = Σ k. A query
    gets qᵀ S / qᵀ z.

    Source: Katharopoulos et al. 2020, eqs. 16-20 (arXiv:2006.16236).
    """
    mixed, total = key[..., :1, :].mT * value[..., :1, :] * 0, key[..., :1, :] * 0
    rows = []
    for token in range(query.shape[-2]):
        here = slice(token, token + 1)
        mixed = mixed + torch.einsum("...id,...ie->...de", key[..., here, :], value[..., here, :])
        total = total + key[..., here, :]
        asked = query[..., here, :]
        rows.append(asked @ mixed / (asked * total).sum(-1, keepdim=True))
    return torch.cat(rows, dim=-2)


class KeyValueCache:
    """The keys and values of all tokens so far, so that decoding computes each of them once.

    Append tokens in any portions, attend with the queries of the newest ones, and rewind: the
    outputs are the rows of causal attention over all tokens held.
    """

    def __init__(self) -> None:
        self._key: Tensor | None = None
        self._value: Tensor | None = None

    def __len__(self) -> int:
        """The number of tokens held."""
        return 0 if self._key is None else self._key.shape[-2]

    def append(
        self, key: Float[Tensor, "*batch k d_k"], value: Float[Tensor, "*batch k d_v"]
    ) -> None:
        """Append the keys and values of the next k tokens."""
        if self._key is None or self._value is None:
            self._key, self._value = key, value
        else:
            self._key = torch.cat([self._key, key], dim=-2)
            self._value = torch.cat([self._value, value], dim=-2)

    def attend(
        self, query: Float[Tensor, "*batch q d_k"], scale: float | None = None
    ) -> Float[Tensor, "*batch q d_v"]:
        """Attend with the queries of the newest q tokens, each to its own token and earlier ones.

        The last query sees all keys in the cache, the query before it all but the last key, and so
        on. Raises ValueError when there are more queries than tokens held.
        """
        queries, held = query.shape[-2], len(self)
        if self._key is None or self._value is None or queries > held:
            raise ValueError(
                f"KeyValueCache.attend: {queries} queries but {held} tokens held; "
                "append the keys and values of the queries' own tokens first"
            )
        rows = [query.new_zeros((*query.shape[:-2], 0, self._value.shape[-1]))]
        for row in range(queries):
            seen = held - queries + row + 1
            key, value = self._key[..., :seen, :], self._value[..., :seen, :]
            rows.append(online_attention(query[..., row : row + 1, :], key, value, scale=scale))
        return torch.cat(rows, dim=-2)

    def rewind(self, n: int) -> None:
        """Forget the newest n tokens, as if they had never been appended.

        Raises ValueError for a negative n and for more tokens than are held.
        """
        held = len(self)
        if not 0 <= n <= held:
            raise ValueError(
                f"KeyValueCache.rewind: cannot forget {n} of {held} tokens; give 0 to {held}"
            )
        if self._key is not None and self._value is not None:
            self._key = self._key[..., : held - n, :]
            self._value = self._value[..., : held - n, :]
