"""Recognise mistakes in decoding: wrong ways to attend to a sequence in several calls.

A wrong answer is recognised by the keys that its queries attend to: the result of each way is
computed by the equation, from the queries, keys and values of the whole sequence. Ways that give
equal results if tokens come one by one differ if tokens come in uneven chunks, so a way is
recognised only if it gives the answers for all schedules of chunks. Some code goes wrong only in
some calls, such as calls with several tokens. Then each call must give the right result or the
result of this way, and no other way may explain the calls.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.harness.case_context import CaseContext
from headcheck.reference import (
    Parameters,
    append_beside,
    linear,
    linear_shares,
    masked_softmax,
    merge_heads,
    project,
    project_beside,
    scaled_scores,
    split_shared_heads,
)

Lengths = tuple[int, ...]
"""the lengths of the chunks of a sequence"""
Heads = tuple[Tensor, Tensor, Tensor]
"""queries, keys and values of every head, before positions are applied"""
Places = Int[Tensor, "tokens"]
STARTS = range(1, 9)
"""the first positions to try for every call"""
MASK_HINT = "which keys may each of the new tokens see?"
POSITION_HINT = "at which positions are the new tokens and the kept ones?"
KEPT_HINT = "a cache must not change between calls"


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


def see_the_past(call: ChunkCall, query: Tensor, key: Tensor) -> Tensor:
    """Let queries see all keys that are not later."""
    return key <= query


def stand_where_they_are(call: ChunkCall, query: Places, key: Places) -> tuple[Places, Places]:
    """Return the positions of tokens in the sequence."""
    return query, key


def change_nothing(call: ChunkCall, heads: Heads) -> Heads:
    """Return queries, keys and values unchanged."""
    return heads


@dataclass(frozen=True)
class OtherWay:
    """Ways in which calls with a cache may attend differently from the whole sequence."""

    mistake: str
    """the name of the mistake that attends in this way"""
    words: str
    sees: Callable[[ChunkCall, Tensor, Tensor], Tensor] = see_the_past
    """returns which keys the queries of a call see, given the places of both"""
    stands: Callable[[ChunkCall, Places, Places], tuple[Places, Places]] = stand_where_they_are
    """the positions of queries and keys, from their places in the sequence"""
    change: Callable[[ChunkCall, Heads], Heads] = change_nothing
    hint: str = ""


VISIBILITIES = (
    OtherWay(
        "cache_unused",
        "each call attends to its own tokens alone",
        lambda call, query, key: (key >= call.begin) & (key <= query),
    ),
    OtherWay(
        "cache_mask_at_the_top_left",
        "the first token of a call sees the first key alone, the second sees two, and so on",
        lambda call, query, key: key <= query - call.begin,
        hint=MASK_HINT,
    ),
    OtherWay(
        "no_mask_with_a_cache",
        "the tokens of a call see those that come after them in it",
        lambda call, query, key: (key <= query) | torch.tensor(call.begin > 0),
        hint=MASK_HINT,
    ),
    OtherWay(
        "next_token_visible_with_a_cache",
        "the tokens of a call with a cache see the one that comes after them",
        lambda call, query, key: key <= query + min(1, call.begin),
        hint=MASK_HINT,
    ),
    OtherWay(
        "one_call_cached",
        "the cache holds the tokens of one call only",
        lambda call, query, key: (key >= call.before) & (key <= query),
    ),
    OtherWay(
        "own_tokens_unseen_with_a_cache",
        "a token in a call with a cache does not attend to itself",
        lambda call, query, key: (key <= query) & ((key < query) | (call.begin == 0)),
        hint=MASK_HINT,
    ),
    OtherWay(
        "own_tokens_unseen_with_a_cache",
        "a call with a cache does not attend to its own tokens",
        lambda call, query, key: (key <= query) & (call.is_kept() | (call.begin == 0)),
    ),
    OtherWay(
        "first_of_cache_lost",
        "each call loses the first of the tokens that are kept",
        lambda call, query, key: (key >= call.number) & (key <= query),
    ),
    OtherWay(
        "last_of_call_not_kept",
        "the last token of each call is not kept",
        lambda call, query, key: (key <= query) & ~(call.is_kept() & (key == call.ends - 1)),
    ),
    OtherWay(
        "only_last_of_call_kept",
        "of the new tokens of a call with a cache only the last is kept",
        lambda call, query, key: (
            (key <= query) & (~call.is_kept() | (call.numbers == 0) | (key == call.ends - 1))
        ),
    ),
    OtherWay(
        "new_keys_before_kept_ones",
        "new keys stand before the kept ones, and the mask takes them for the older",
        lambda call, query, key: call.end - call.ends + key - call.begins <= query,
        hint=MASK_HINT,
    ),
)
POSITIONS = (
    OtherWay(
        "positions_counted_anew",
        "positions are counted from the first token of each call",
        stands=lambda call, query, key: (query - call.begin, key - call.begins),
        hint=POSITION_HINT,
    ),
    OtherWay(
        "key_positions_counted_anew",
        "keys are placed as if each call began at position 0",
        stands=lambda call, query, key: (query, key - call.begins),
        hint=POSITION_HINT,
    ),
    OtherWay(
        "query_positions_counted_anew",
        "queries are placed as if each call began at position 0",
        stands=lambda call, query, key: (query - call.begin, key),
        hint=POSITION_HINT,
    ),
    OtherWay(
        "kept_keys_turned_again",
        "kept keys are rotated again in every call",
        stands=lambda call, query, key: (query, key * (call.number - call.numbers + 1)),
        hint=KEPT_HINT,
    ),
    OtherWay(
        "new_keys_turned_twice",
        "new keys are rotated twice in calls with a cache",
        stands=lambda call, query, key: (query, key * (1 + call.numbers.clamp(max=1))),
        hint=POSITION_HINT,
    ),
    OtherWay(
        "calls_counted_for_positions",
        "positions begin at the number of earlier calls",
        stands=lambda call, query, key: (
            query - call.begin + call.number,
            key - call.begins + call.numbers,
        ),
        hint=POSITION_HINT,
    ),
    OtherWay(
        "kept_keys_not_turned",
        "kept keys are not rotated",
        stands=lambda call, query, key: (query, key * ~call.is_kept()),
        hint=POSITION_HINT,
    ),
    OtherWay(
        "positions_one_off_with_a_cache",
        "positions are one too large in calls with a cache",
        stands=lambda call, query, key: (
            query + min(1, call.number),
            key + call.numbers.clamp(max=1),
        ),
        hint=POSITION_HINT,
    ),
    OtherWay(
        "positions_one_off_with_a_cache",
        "positions are one too small in calls with a cache",
        stands=lambda call, query, key: (
            query - min(1, call.number),
            key - call.numbers.clamp(max=1),
        ),
        hint=POSITION_HINT,
    ),
)


def list_ways(context: CaseContext) -> list[OtherWay]:
    """Return the wrong ways to attend that are possible in a case."""
    turned = get_variant(context.contract, context.case).rotary
    own = (*POSITIONS, *map(_begin_at, STARTS)) if turned else ()
    return [*VISIBILITIES, *own, *_list_changes(context)]


def list_limits(number: int) -> tuple[OtherWay, ...]:
    """Return the ways in which at most this number of tokens is kept or seen."""
    return (
        OtherWay(
            "cache_cut_off",
            f"of earlier tokens no more than {number} are kept, the last",
            lambda call, query, key: (key >= call.begin - number) & (key <= query),
        ),
        OtherWay(
            "window_with_a_cache",
            f"no more than {number + 1} tokens are seen, the last",
            lambda call, query, key: (key <= query) & ((key >= query - number) | (call.begin == 0)),
            hint=MASK_HINT,
        ),
        OtherWay(
            "cache_cut_off",
            f"a call with a cache has no more than the last {number + 1} keys",
            lambda call, query, key: (
                (key <= query) & ((key >= call.end - number - 1) | (call.begin == 0))
            ),
        ),
    )


def _begin_at(start: int) -> OtherWay:
    def stand(call: ChunkCall, query: Places, key: Places) -> tuple[Places, Places]:
        own = key - call.begins + start * call.numbers.clamp(max=1)
        return own[call.begin :], own

    words = f"positions begin at {start} in every call with a cache, whatever it holds"
    return OtherWay("positions_begin_at_a_number", words, stands=stand, hint=POSITION_HINT)


def _list_changes(context: CaseContext) -> Iterator[OtherWay]:
    """Yield the ways in which keys and values are wrong."""
    for axis, what in ((0, "sequence"), (1, "head")):
        yield OtherWay(
            f"kept_of_first_{what}",
            f"what is kept of the first {what} is used for all",
            change=partial(_share_first, axis),
        )
    yield OtherWay(
        "kept_keys_scaled_again",
        "kept keys are divided by the root of a head's width again in every call",
        change=partial(_scale_again, 1 / math.sqrt(context.case.head_dim)),
        hint=KEPT_HINT,
    )
    bare = _project(context, replace(context.parameters, b_q=None, b_k=None, b_v=None))
    for place, what in enumerate(("queries", "keys", "values")):
        yield OtherWay(
            "bias_lacking_with_a_cache",
            f"{what} of calls with a cache lack their bias",
            change=partial(_lack_bias, bare, place),
            hint="how are new tokens treated differently with a cache?",
        )


def _share_first(axis: int, call: ChunkCall, heads: Heads) -> Heads:
    query, *kept = heads
    key, value = (
        torch.where(call.is_kept()[:, None], t.narrow(axis, 0, 1).expand_as(t), t) for t in kept
    )
    return query, key, value


def _scale_again(scale: float, call: ChunkCall, heads: Heads) -> Heads:
    query, key, value = heads
    return query, key * (scale ** (call.number - call.numbers))[:, None], value


def _lack_bias(bare: Heads, place: int, call: ChunkCall, heads: Heads) -> Heads:
    first = 0 if place else call.begin
    late = (call.numbers > 0)[first:, None]
    changed = list(heads)
    changed[place] = torch.where(late, bare[place][..., first : call.end, :], heads[place])
    query, key, value = changed
    return query, key, value


def recognise(
    context: CaseContext, answers: Mapping[Lengths, Tensor]
) -> tuple[OtherWay, bool] | None:
    """Return the way that gives these outputs, and whether it is taken in all calls with a cache.

    None if no way explains the outputs, or if several do, each in only some of the calls.
    """
    if context.contract.capabilities & {
        Capability.SINKS,
        Capability.GATED,
        Capability.DIFFERENTIAL,
    }:
        return None
    heads = _project(context, context.parameters)
    ways = [*list_ways(context), *_find_limits(context, heads, answers)]
    fits = [(way, _list_fits(context, heads, way, answers)) for way in ways]
    for way, found in fits:
        if found is not None and all(found):
            return way, True
    some = [way for way, found in fits if found is not None]
    return (some[0], False) if len(some) == 1 else None


def _list_fits(
    context: CaseContext, heads: Heads, way: OtherWay, answers: Mapping[Lengths, Tensor]
) -> list[bool] | None:
    """Return for each call whether it goes this way; None if some other call is not right."""
    fits = []
    for lengths, output in answers.items():
        for call in list_calls(lengths):
            fits.append(_is_near(context, call, output, _attend(context, heads, way, call)))
            if not fits[-1] and not _is_right(context, call, output):
                return None
    return fits


def _find_limits(
    context: CaseContext, heads: Heads, answers: Mapping[Lengths, Tensor]
) -> Iterable[OtherWay]:
    """Return the limits on kept or seen tokens that give the first wrong output."""
    wrong = (
        (call, output)
        for lengths, output in answers.items()
        for call in list_calls(lengths)
        if not _is_right(context, call, output)
    )
    call, output = next(wrong)
    near = (output - context.expected.outputs[0]).abs() <= context.tolerance.float32
    first = call.begin + (~near)[:, call.begin : call.end].any(-1).any(0).nonzero()[0]
    limits = (way for number in range(1, call.end) for way in list_limits(number))
    row = output[:, first], context.tolerance.float32[:, first]
    return [w for w in limits if _gives(_attend(context, heads, w, call, first), *row)]


def _gives(part: Tensor, row: Tensor, tolerance: Tensor) -> bool:
    return bool(((part - row).abs() <= tolerance).all())


def list_calls(lengths: Sequence[int]) -> Iterator[ChunkCall]:
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


def attend_in_calls(context: CaseContext, way: OtherWay, lengths: Lengths) -> Tensor:
    """Return the output for a sequence in chunks of these lengths, attended to in this way."""
    heads = _project(context, context.parameters)
    parts = [_attend(context, heads, way, call) for call in list_calls(lengths)]
    return torch.cat(parts, dim=1)


def _project(context: CaseContext, parameters: Parameters) -> Heads:
    x, p = context.x, parameters
    query, key, value = split_shared_heads(project(x, p, x, x), context.case.heads)
    return *append_beside(query, key, project_beside(x, p, x)), value


def _attend(
    context: CaseContext, heads: Heads, way: OtherWay, call: ChunkCall, own: Places | None = None
) -> Tensor:
    """Return the output of one call, or of some of its tokens."""
    contract, case, p = context.contract, context.case, context.parameters
    variant, places = get_variant(contract, case), torch.arange(call.end)
    own = places[call.begin :] if own is None else own
    given = heads[0][..., own, :], heads[1][..., : call.end, :], heads[2][..., : call.end, :]
    query, key, value = way.change(call, given)
    at_query, at_key = (
        replace(variant, positions=tuple(stand.tolist())) for stand in way.stands(call, own, places)
    )
    query, key = (variant.find_features(t) for t in (at_query.place(query), at_key.place(key)))
    scores = scaled_scores(query, key, get_scale(contract, case))
    visible = way.sees(call, own[:, None], places)
    if contract.has(Capability.WINDOW):
        visible = visible & (own[:, None] - places < case.window)
    share = linear_shares if variant.features else masked_softmax
    weights = share(variant.adjust(scores), visible.expand(len(own), len(places)))
    context_vectors = merge_heads(weights @ value)
    return context_vectors if p.W_o is None else linear(context_vectors, p.W_o, p.b_o)


def _is_near(context: CaseContext, call: ChunkCall, output: Tensor, part: Tensor) -> bool:
    rows = slice(call.begin, call.end)
    return _gives(part, output[:, rows], context.tolerance.float32[:, rows])


def _is_right(context: CaseContext, call: ChunkCall, output: Tensor) -> bool:
    return _is_near(context, call, output, context.expected.outputs[0][:, call.begin : call.end])
