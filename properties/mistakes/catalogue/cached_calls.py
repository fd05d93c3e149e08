"""Wrong ways to attend to a sequence in several calls, and the mistakes that they are.

A mistake may be made in several ways. It has a sentence for all of them; each way has words of its
own, for the message of a check whose calls attend in this way.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_mistake
from headcheck.properties.mistakes.steps.cached_calls import (
    Change,
    Heads,
    Seeing,
    Standing,
    begin_at,
    change_nothing,
    lack_bias,
    scale_again,
    see_the_past,
    share_first,
    shift_by,
    stand_where_they_are,
)

STARTS = range(1, 9)
"""the first positions to try for every call"""
MASK_HINT = "which keys may each of the new tokens see?"
POSITION_HINT = "at which positions are the new tokens and the kept ones?"
KEPT_HINT = "a cache must not change between calls"


@dataclass(frozen=True)
class CachedWay:
    """A way in which calls with a cache may attend differently from the whole sequence."""

    mistake: Mistake
    """the mistake that attends in this way"""
    words: str
    sees: Seeing = see_the_past
    stands: Standing = stand_where_they_are
    change: Change = change_nothing
    hint: str = ""


def in_some_calls(mistake: Mistake) -> Mistake:
    """Return the mistake of a submission that attends in a wrong way in only some of the calls."""
    sentence = f"{mistake.sentence} It is so in some calls only."
    return replace(mistake, name=f"{mistake.name}_at_times", sentence=sentence)


def _define(
    name: str,
    sentence: str,
    words: str,
    sees: Seeing = see_the_past,
    stands: Standing = stand_where_they_are,
    hint: str = "",
) -> CachedWay:
    """Return the only way in which a mistake is made."""
    return CachedWay(define_mistake(name, sentence), words, sees, stands, hint=hint)


OWN_UNSEEN = define_mistake(
    "own_tokens_unseen_with_a_cache",
    "With a cache the new tokens do not attend to themselves.",
)
CUT_OFF = define_mistake(
    "cache_cut_off",
    "Only the last tokens are kept, up to a number of them: earlier ones are forgotten, and a "
    "cache has to hold all.",
)
WINDOWED = define_mistake(
    "window_with_a_cache",
    "With a cache a token sees only a number of the last ones: it should see all.",
)
ONE_OFF = define_mistake(
    "positions_one_off_with_a_cache",
    "With a cache the positions of new tokens are off by one.",
)
BEGUN_AT_A_NUMBER = define_mistake(
    "positions_begin_at_a_number",
    "With a cache positions begin at the same number in every call, and not at the number of "
    "tokens that it holds: perhaps the length of another axis.",
)
SCALED_AGAIN = define_mistake(
    "kept_keys_scaled_again",
    "Kept keys are divided by the root of a head's width again in every call.",
)
BIAS_LACKING = define_mistake(
    "bias_lacking_with_a_cache",
    "In calls with a cache the bias of queries, keys or values is left out.",
)

VISIBILITIES = (
    _define(
        "cache_unused",
        "A call with a cache attends only to its own tokens: keys and values of earlier ones "
        "are not kept, or not used.",
        "each call attends to its own tokens alone",
        lambda call, query, key: (key >= call.begin) & (key <= query),
    ),
    _define(
        "cache_mask_at_the_top_left",
        "With a cache the causal mask begins at the first key: the first new token sees that "
        "key only, although it comes after all keys of the cache.",
        "the first token of a call sees the first key alone, the second sees two, and so on",
        lambda call, query, key: key <= query - call.begin,
        hint=MASK_HINT,
    ),
    _define(
        "no_mask_with_a_cache",
        "With a cache nothing is masked: new tokens see the new ones that come after them.",
        "the tokens of a call see those that come after them in it",
        lambda call, query, key: (key <= query) | torch.tensor(call.begin > 0),
        hint=MASK_HINT,
    ),
    _define(
        "next_token_visible_with_a_cache",
        "With a cache every new token sees the one after it: the mask begins one diagonal too "
        "late.",
        "the tokens of a call with a cache see the one that comes after them",
        lambda call, query, key: key <= query + min(1, call.begin),
        hint=MASK_HINT,
    ),
    _define(
        "one_call_cached",
        "Earlier keys and values are lost: a cache holds only those of the last call.",
        "the cache holds the tokens of one call only",
        lambda call, query, key: (key >= call.before) & (key <= query),
    ),
    CachedWay(
        OWN_UNSEEN,
        "a token in a call with a cache does not attend to itself",
        lambda call, query, key: (key <= query) & ((key < query) | (call.begin == 0)),
        hint=MASK_HINT,
    ),
    CachedWay(
        OWN_UNSEEN,
        "a call with a cache does not attend to its own tokens",
        lambda call, query, key: (key <= query) & (call.is_kept() | (call.begin == 0)),
    ),
    _define(
        "first_of_cache_lost",
        "Each call loses the first of the kept tokens.",
        "each call loses the first of the tokens that are kept",
        lambda call, query, key: (key >= call.number) & (key <= query),
    ),
    _define(
        "last_of_call_not_kept",
        "The last token of each call is not kept: later ones do not see it.",
        "the last token of each call is not kept",
        lambda call, query, key: (key <= query) & ~(call.is_kept() & (key == call.ends - 1)),
    ),
    _define(
        "only_last_of_call_kept",
        "With a cache only the last new token of each call is kept: later ones do not see the "
        "others.",
        "of the new tokens of a call with a cache only the last is kept",
        lambda call, query, key: (
            (key <= query) & (~call.is_kept() | (call.numbers == 0) | (key == call.ends - 1))
        ),
    ),
    _define(
        "new_keys_before_kept_ones",
        "New keys come before the kept ones, so the causal mask treats them as older.",
        "new keys stand before the kept ones, and the mask takes them for the older",
        lambda call, query, key: call.end - call.ends + key - call.begins <= query,
        hint=MASK_HINT,
    ),
)
PLACED = (
    _define(
        "positions_counted_anew",
        "With a cache positions are counted from the first new token, and not from the first "
        "of the sequence.",
        "positions are counted from the first token of each call",
        stands=lambda call, query, key: (query - call.begin, key - call.begins),
        hint=POSITION_HINT,
    ),
    _define(
        "key_positions_counted_anew",
        "With a cache the new keys are placed as if they were the first of the sequence; the "
        "queries stand where they should.",
        "keys are placed as if each call began at position 0",
        stands=lambda call, query, key: (query, key - call.begins),
        hint=POSITION_HINT,
    ),
    _define(
        "query_positions_counted_anew",
        "With a cache the queries are placed as if they were the first of the sequence; the "
        "keys stand where they should.",
        "queries are placed as if each call began at position 0",
        stands=lambda call, query, key: (query - call.begin, key),
        hint=POSITION_HINT,
    ),
    _define(
        "kept_keys_turned_again",
        "Kept keys are rotated again in every call: they were already rotated when they were new.",
        "kept keys are rotated again in every call",
        stands=lambda call, query, key: (query, key * (call.number - call.numbers + 1)),
        hint=KEPT_HINT,
    ),
    _define(
        "new_keys_turned_twice",
        "With a cache the new keys are rotated twice.",
        "new keys are rotated twice in calls with a cache",
        stands=lambda call, query, key: (query, key * (1 + call.numbers.clamp(max=1))),
        hint=POSITION_HINT,
    ),
    _define(
        "calls_counted_for_positions",
        "With a cache positions begin at the number of earlier calls, not at the number of "
        "earlier tokens.",
        "positions begin at the number of earlier calls",
        stands=lambda call, query, key: (
            query - call.begin + call.number,
            key - call.begins + call.numbers,
        ),
        hint=POSITION_HINT,
    ),
    _define(
        "kept_keys_not_turned",
        "Kept keys are never rotated, neither before they are kept nor when they are used.",
        "kept keys are not rotated",
        stands=lambda call, query, key: (query, key * ~call.is_kept()),
        hint=POSITION_HINT,
    ),
)
SHIFTED = tuple(
    CachedWay(
        ONE_OFF,
        f"positions are one too {size} in calls with a cache",
        stands=shift_by(by),
        hint=POSITION_HINT,
    )
    for by, size in ((1, "large"), (-1, "small"))
)
BEGINNINGS = tuple(
    CachedWay(
        BEGUN_AT_A_NUMBER,
        f"positions begin at {start} in every call with a cache, whatever it holds",
        stands=begin_at(start),
        hint=POSITION_HINT,
    )
    for start in STARTS
)
POSITIONS = (*PLACED, *SHIFTED, *BEGINNINGS)
SHARED = tuple(
    CachedWay(
        define_mistake(f"kept_of_first_{what}", sentence),
        f"what is kept of the first {what} is used for all",
        change=share_first(axis),
    )
    for axis, what, sentence in (
        (0, "sequence", "The cache of the first sequence is used for the whole batch."),
        (1, "head", "The cache of the first head is used for all heads."),
    )
)


def list_limits(number: int) -> tuple[CachedWay, ...]:
    """Return the ways in which at most this number of tokens is kept or seen."""
    return (
        CachedWay(
            CUT_OFF,
            f"of earlier tokens no more than {number} are kept, the last",
            lambda call, query, key: (key >= call.begin - number) & (key <= query),
        ),
        CachedWay(
            WINDOWED,
            f"no more than {number + 1} tokens are seen, the last",
            lambda call, query, key: (key <= query) & ((key >= query - number) | (call.begin == 0)),
            hint=MASK_HINT,
        ),
        CachedWay(
            CUT_OFF,
            f"a call with a cache has no more than the last {number + 1} keys",
            lambda call, query, key: (
                (key <= query) & ((key >= call.end - number - 1) | (call.begin == 0))
            ),
        ),
    )


def iter_layer_ways(head_dim: int, bare: Heads) -> Iterator[CachedWay]:
    """Yield the ways that depend on a layer: its width, and what it gives without its biases."""
    yield CachedWay(
        SCALED_AGAIN,
        "kept keys are divided by the root of a head's width again in every call",
        change=scale_again(1 / math.sqrt(head_dim)),
        hint=KEPT_HINT,
    )
    for place, what in enumerate(("queries", "keys", "values")):
        yield CachedWay(
            BIAS_LACKING,
            f"{what} of calls with a cache lack their bias",
            change=lack_bias(bare, place),
            hint="how are new tokens treated differently with a cache?",
        )


CACHED_CALLS: tuple[Mistake, ...] = (
    *dict.fromkeys(way.mistake for way in (*VISIBILITIES, *POSITIONS, *SHARED)),
    CUT_OFF, WINDOWED, SCALED_AGAIN, BIAS_LACKING,
)  # fmt: skip
"""the mistakes in attending with a cache"""
