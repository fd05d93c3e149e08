"""Calls with a cache as they go wrong: what their queries see, where tokens stand, what is kept.

A sequence comes in several calls. The functions here get one of these calls, and what is right in
it: the places of queries and keys, or the queries, keys and values of all heads.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Lengths = tuple[int, ...]
"""the lengths of the chunks of a sequence"""
Heads = tuple[Tensor, Tensor, Tensor]
"""queries, keys and values of every head, before positions are applied"""
Places = Int[Tensor, "tokens"]


@dataclass(frozen=True, eq=False)
class ChunkCall:
    """One of several calls: the places of its tokens, and the call in which each token came."""

    number: int
    before: int
    """the place of the first token of the previous call"""
    begin: int
    end: int
    numbers: Places
    """the number of the call in which each token came"""
    begins: Places
    """the place of the first token of that call"""
    ends: Places

    def is_kept(self) -> Bool[Tensor, "tokens"]:
        """Return for every token whether it came in an earlier call."""
        return self.numbers < self.number


Seeing = Callable[[ChunkCall, Tensor, Tensor], Tensor]
"""returns which keys the queries of a call see, given the places of both"""
Standing = Callable[[ChunkCall, Places, Places], tuple[Places, Places]]
"""returns the positions of queries and keys, given their places in the sequence"""
Change = Callable[[ChunkCall, Heads], Heads]
"""returns the queries, keys and values of a call with a mistake"""


def list_calls(lengths: Lengths) -> Iterator[ChunkCall]:
    """Yield the calls in which chunks of these lengths come."""
    size = torch.tensor(lengths)
    ends = size.cumsum(0)
    numbers = torch.arange(len(lengths)).repeat_interleave(size)
    begins = (ends - size)[numbers]
    for number, end in enumerate(ends.tolist()):
        begin = end - lengths[number]
        before = begin - lengths[number - 1] if number else 0
        upto = numbers[:end], begins[:end], ends[numbers][:end]
        yield ChunkCall(number, before, begin, end, *upto)


def see_the_past(call: ChunkCall, query: Tensor, key: Tensor) -> Tensor:
    """Let queries see all keys that are not later."""
    return key <= query


def stand_where_they_are(call: ChunkCall, query: Places, key: Places) -> tuple[Places, Places]:
    """Return the positions of tokens in the sequence."""
    return query, key


def change_nothing(call: ChunkCall, heads: Heads) -> Heads:
    """Return queries, keys and values unchanged."""
    return heads


def begin_at(start: int) -> Standing:
    """Let positions begin at the same number in every call with a cache."""

    def stand(call: ChunkCall, query: Places, key: Places) -> tuple[Places, Places]:
        own = key - call.begins + start * call.numbers.clamp(max=1)
        return own[call.begin :], own

    return stand


def shift_by(number: int) -> Standing:
    """Let positions be too large by this number in calls with a cache."""

    def stand(call: ChunkCall, query: Places, key: Places) -> tuple[Places, Places]:
        return query + number * min(1, call.number), key + number * call.numbers.clamp(max=1)

    return stand


def share_first(axis: int) -> Change:
    """Use what is kept of the first sequence or head for all."""

    def share(call: ChunkCall, heads: Heads) -> Heads:
        query, *kept = heads
        key, value = (
            torch.where(call.is_kept()[:, None], t.narrow(axis, 0, 1).expand_as(t), t) for t in kept
        )
        return query, key, value

    return share


def scale_again(scale: float) -> Change:
    """Scale kept keys again in every call."""

    def change(call: ChunkCall, heads: Heads) -> Heads:
        query, key, value = heads
        return query, key * (scale ** (call.number - call.numbers))[:, None], value

    return change


def lack_bias(bare: Heads, place: int) -> Change:
    """Use queries, keys or values without a bias, `bare`, in calls with a cache."""

    def lack(call: ChunkCall, heads: Heads) -> Heads:
        first = 0 if place else call.begin
        late = (call.numbers > 0)[first:, None]
        changed = list(heads)
        changed[place] = torch.where(late, bare[place][..., first : call.end, :], heads[place])
        query, key, value = changed
        return query, key, value

    return lack
