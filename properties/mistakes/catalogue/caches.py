"""Mistakes in keeping keys and values from call to call."""

from collections.abc import Iterator, Sequence

from headcheck.properties.families import ALL, decoding, latents, list_properties, purity
from headcheck.properties.mistakes.catalogue.mistake import define_mistake
from headcheck.properties.mistakes.catalogue.symptom import StructuralMistake, Symptom
from headcheck.properties.property import PropertyGroup

IN_PARTS = (
    decoding.one_token_at_a_time_gives_the_same_output,
    decoding.several_tokens_at_a_time_give_the_same_output,
    decoding.a_large_cache_is_right_too,
)
RESTING = (
    decoding.a_cache_can_be_continued_twice,
    decoding.sequences_keep_their_caches_apart,
    decoding.kept_keys_and_values_are_not_computed_again,
    latents.kept_latents_and_turned_keys_are_not_computed_again,
)
"""the properties that continue sequences and compare with one call"""
SOME = ", in some of the calls$"

WAYS = (
    (
        "cache_unused",
        "A call with a cache attends only to its own tokens: keys and values of earlier ones "
        "are not kept, or not used.",
        "each call attends to its own tokens alone",
    ),
    (
        "one_call_cached",
        "Earlier keys and values are lost: a cache holds only those of the last call.",
        "the cache holds the tokens of one call only",
    ),
    (
        "cache_mask_at_the_top_left",
        "With a cache the causal mask begins at the first key: the first new token sees that "
        "key only, although it comes after all keys of the cache.",
        "the first token of a call sees the first key alone",
    ),
    (
        "no_mask_with_a_cache",
        "With a cache nothing is masked: new tokens see the new ones that come after them.",
        "the tokens of a call see those that come after them",
    ),
    (
        "next_token_visible_with_a_cache",
        "With a cache every new token sees the one after it: the mask begins one diagonal too "
        "late.",
        "the tokens of a call with a cache see the one",
    ),
    (
        "own_tokens_unseen_with_a_cache",
        "With a cache the new tokens do not attend to themselves.",
        "does not attend to (itself|its own tokens)",
    ),
    (
        "first_of_cache_lost",
        "Each call loses the first of the kept tokens.",
        "each call loses the first",
    ),
    (
        "last_of_call_not_kept",
        "The last token of each call is not kept: later ones do not see it.",
        "the last token of each call is not kept",
    ),
    (
        "only_last_of_call_kept",
        "With a cache only the last new token of each call is kept: later ones do not see the "
        "others.",
        "of the new tokens of a call with a cache only the last",
    ),
    (
        "new_keys_before_kept_ones",
        "New keys come before the kept ones, so the causal mask treats them as older.",
        "new keys stand before the kept ones",
    ),
    (
        "cache_cut_off",
        "Only the last tokens are kept, up to a number of them: earlier ones are forgotten, "
        "and a cache has to hold all.",
        r"(of earlier tokens no more than \d+ are kept|no more than the last \d+ keys)",
    ),
    (
        "window_with_a_cache",
        "With a cache a token sees only a number of the last ones: it should see all.",
        r"no more than \d+ tokens are seen",
    ),
    (
        "positions_counted_anew",
        "With a cache positions are counted from the first new token, and not from the first "
        "of the sequence.",
        "positions are counted from the first token of each call",
    ),
    (
        "key_positions_counted_anew",
        "With a cache the new keys are placed as if they were the first of the sequence; the "
        "queries stand where they should.",
        "keys are placed as if each call began",
    ),
    (
        "query_positions_counted_anew",
        "With a cache the queries are placed as if they were the first of the sequence; the keys "
        "stand where they should.",
        "queries are placed as if each call began",
    ),
    (
        "kept_keys_turned_again",
        "Kept keys are rotated again in every call: they were already rotated when they were new.",
        "kept keys are rotated again",
    ),
    (
        "new_keys_turned_twice",
        "With a cache the new keys are rotated twice.",
        "new keys are rotated twice",
    ),
    (
        "calls_counted_for_positions",
        "With a cache positions begin at the number of earlier calls, not at the number of earlier "
        "tokens.",
        "positions begin at the number of earlier calls",
    ),
    (
        "kept_keys_not_turned",
        "Keys are kept before they are rotated, and are never rotated later.",
        "kept keys are not rotated",
    ),
    (
        "positions_one_off_with_a_cache",
        "With a cache the positions of new tokens are off by one.",
        "positions are one too (large|small)",
    ),
    (
        "positions_begin_at_a_number",
        "With a cache positions begin at the same number in every call, and not at the number of "
        "tokens that it holds: perhaps the length of another axis.",
        r"positions begin at \d+ in every call",
    ),
    (
        "kept_of_first_sequence",
        "The cache of the first sequence is used for the whole batch.",
        "kept of the first sequence is used",
    ),
    (
        "kept_of_first_head",
        "The cache of the first head is used for all heads.",
        "kept of the first head is used",
    ),
    (
        "kept_keys_scaled_again",
        "Kept keys are divided by the root of a head's width again in every call.",
        "kept keys are divided by the root",
    ),
    (
        "bias_lacking_with_a_cache",
        "In calls with a cache the bias of queries, keys or values is left out.",
        "(queries|keys|values) of calls with a cache lack their bias",
    ),
)
"""mistakes in caches: name, sentence, and the message of the properties that show each"""


def _define_ways() -> Iterator[StructuralMistake]:
    """Yield each mistake for all calls with a cache, and for only some of them."""
    for name, sentence, words in WAYS:
        begins = f"-> what comes out if .*{words}"
        whole = define_mistake(name, sentence, "")
        yield StructuralMistake(whole, (Symptom(f"{begins}(?!.*{SOME})", IN_PARTS),), RESTING)
        part = define_mistake(f"{name}_at_times", f"{sentence} It is so in some calls only.", "")
        yield StructuralMistake(part, (Symptom(f"{begins}.*{SOME}", IN_PARTS),), RESTING)


CACHES: Sequence[StructuralMistake] = (
    StructuralMistake(
        define_mistake(
            "no_cache_returned",
            "No cache is returned: every call, including the first, should return output and "
            "cache.",
            "",
        ),
        (Symptom("^crashed: no cache comes back", list_properties(decoding)),),
        explains=tuple(p for p in ALL if p.group is PropertyGroup.CACHE),
    ),
    *_define_ways(),
    StructuralMistake(
        define_mistake(
            "cache_computed_again",
            "Keys and values of earlier tokens are computed again, from what the cache holds.",
            "",
        ),
        (Symptom("^value:", (decoding.kept_keys_and_values_are_not_computed_again,)),),
    ),
    StructuralMistake(
        define_mistake(
            "latents_computed_again",
            "Latents and rotated keys of earlier tokens are computed again, from what the cache "
            "holds.",
            "",
        ),
        (Symptom("^value:", (latents.kept_latents_and_turned_keys_are_not_computed_again,)),),
    ),
    StructuralMistake(
        define_mistake(
            "keys_of_heads_cached",
            "The cache holds at least as many numbers as the keys of all heads; for each token "
            "its latent and its rotated key are enough.",
            "",
        ),
        (Symptom("^value:", (latents.a_cache_holds_less_than_keys_of_all_heads,)),),
    ),
    StructuralMistake(
        define_mistake(
            "something_kept_besides_the_cache",
            "Something is kept outside the cache that is passed: sequences see each other.",
            "",
        ),
        (
            Symptom(
                "^(value|shape):",
                (
                    decoding.sequences_keep_their_caches_apart,
                    decoding.a_call_without_a_cache_begins_anew,
                ),
            ),
        ),
        explains=(
            decoding.a_cache_can_be_continued_twice,
            purity.it_can_be_copied_after_a_call_with_gradients,
        ),
    ),
    StructuralMistake(
        define_mistake(
            "cache_changed",
            "A call changes the cache that it gets: continuing from that cache again gives "
            "something else.",
            "",
        ),
        (Symptom("^(value|shape):", (decoding.a_cache_can_be_continued_twice,)),),
    ),
)
