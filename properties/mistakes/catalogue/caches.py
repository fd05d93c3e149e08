"""Mistakes in caching keys and values between calls."""

from collections.abc import Iterator, Sequence

from headcheck.properties.families import ALL, decoding, latents, list_properties, purity
from headcheck.properties.mistakes.catalogue.mistake import define_mistake
from headcheck.properties.mistakes.catalogue.symptom import StructuralMistake, Symptom
from headcheck.properties.property import PropertyGroup
from headcheck.properties.violations.violation import ViolationKind as Kind

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
"""the properties that compare a sequence in several calls with one call"""
WAYS = (
    (
        "cache_unused",
        "A call with a cache attends only to its own tokens: keys and values of earlier ones "
        "are not kept, or not used.",
    ),
    (
        "one_call_cached",
        "Earlier keys and values are lost: a cache holds only those of the last call.",
    ),
    (
        "cache_mask_at_the_top_left",
        "With a cache the causal mask begins at the first key: the first new token sees that "
        "key only, although it comes after all keys of the cache.",
    ),
    (
        "no_mask_with_a_cache",
        "With a cache nothing is masked: new tokens see the new ones that come after them.",
    ),
    (
        "next_token_visible_with_a_cache",
        "With a cache every new token sees the one after it: the mask begins one diagonal too "
        "late.",
    ),
    (
        "own_tokens_unseen_with_a_cache",
        "With a cache the new tokens do not attend to themselves.",
    ),
    (
        "first_of_cache_lost",
        "Each call loses the first of the kept tokens.",
    ),
    (
        "last_of_call_not_kept",
        "The last token of each call is not kept: later ones do not see it.",
    ),
    (
        "only_last_of_call_kept",
        "With a cache only the last new token of each call is kept: later ones do not see the "
        "others.",
    ),
    (
        "new_keys_before_kept_ones",
        "New keys come before the kept ones, so the causal mask treats them as older.",
    ),
    (
        "cache_cut_off",
        "Only the last tokens are kept, up to a number of them: earlier ones are forgotten, "
        "and a cache has to hold all.",
    ),
    (
        "window_with_a_cache",
        "With a cache a token sees only a number of the last ones: it should see all.",
    ),
    (
        "positions_counted_anew",
        "With a cache positions are counted from the first new token, and not from the first "
        "of the sequence.",
    ),
    (
        "key_positions_counted_anew",
        "With a cache the new keys are placed as if they were the first of the sequence; the "
        "queries stand where they should.",
    ),
    (
        "query_positions_counted_anew",
        "With a cache the queries are placed as if they were the first of the sequence; the keys "
        "stand where they should.",
    ),
    (
        "kept_keys_turned_again",
        "Kept keys are rotated again in every call: they were already rotated when they were new.",
    ),
    (
        "new_keys_turned_twice",
        "With a cache the new keys are rotated twice.",
    ),
    (
        "calls_counted_for_positions",
        "With a cache positions begin at the number of earlier calls, not at the number of earlier "
        "tokens.",
    ),
    (
        "kept_keys_not_turned",
        "Keys are kept before they are rotated, and are never rotated later.",
    ),
    (
        "positions_one_off_with_a_cache",
        "With a cache the positions of new tokens are off by one.",
    ),
    (
        "positions_begin_at_a_number",
        "With a cache positions begin at the same number in every call, and not at the number of "
        "tokens that it holds: perhaps the length of another axis.",
    ),
    (
        "kept_of_first_sequence",
        "The cache of the first sequence is used for the whole batch.",
    ),
    (
        "kept_of_first_head",
        "The cache of the first head is used for all heads.",
    ),
    (
        "kept_keys_scaled_again",
        "Kept keys are divided by the root of a head's width again in every call.",
    ),
    (
        "bias_lacking_with_a_cache",
        "In calls with a cache the bias of queries, keys or values is left out.",
    ),
)
"""mistakes in caches, each with its sentence"""


def _define_ways() -> Iterator[StructuralMistake]:
    """Yield each mistake in two versions: in all calls with a cache, and in only some of them."""
    for mistake, sentence in WAYS:
        for always in (True, False):
            name = decoding.name_way(mistake, always=always)
            told = sentence if always else f"{sentence} It is so in some calls only."
            symptoms = (Symptom(IN_PARTS, reasons={name}),)
            yield StructuralMistake(define_mistake(name, told, ""), symptoms, RESTING)


CACHES: Sequence[StructuralMistake] = (
    StructuralMistake(
        define_mistake(
            "no_cache_returned",
            "No cache is returned: every call, including the first, should return output and "
            "cache.",
            "",
        ),
        (Symptom(list_properties(decoding), crashes="^no cache comes back"),),
        explains=tuple(p for p in ALL if p.group is PropertyGroup.CACHE),
    ),
    *_define_ways(),
    StructuralMistake(
        define_mistake(
            "cache_computed_again",
            "Keys and values of earlier tokens are computed again, from what the cache holds.",
            "",
        ),
        (Symptom((decoding.kept_keys_and_values_are_not_computed_again,), kinds={Kind.VALUE}),),
    ),
    StructuralMistake(
        define_mistake(
            "latents_computed_again",
            "Latents and rotated keys of earlier tokens are computed again, from what the cache "
            "holds.",
            "",
        ),
        (
            Symptom(
                (latents.kept_latents_and_turned_keys_are_not_computed_again,), kinds={Kind.VALUE}
            ),
        ),
    ),
    StructuralMistake(
        define_mistake(
            "keys_of_heads_cached",
            "The cache holds at least as many numbers as the keys of all heads; for each token "
            "its latent and its rotated key are enough.",
            "",
        ),
        (Symptom((latents.a_cache_holds_less_than_keys_of_all_heads,), kinds={Kind.VALUE}),),
    ),
    StructuralMistake(
        define_mistake(
            "something_kept_besides_the_cache",
            "Something is kept outside the cache that is passed: sequences see each other.",
            "",
        ),
        (
            Symptom(
                (
                    decoding.sequences_keep_their_caches_apart,
                    decoding.a_call_without_a_cache_begins_anew,
                ),
                kinds={Kind.VALUE, Kind.SHAPE},
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
        (Symptom((decoding.a_cache_can_be_continued_twice,), kinds={Kind.VALUE, Kind.SHAPE}),),
    ),
)
