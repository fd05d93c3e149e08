"""Mistakes in caching keys and values between calls."""

from collections.abc import Sequence

from headcheck.properties.families import ALL, decoding, latents, list_properties, purity
from headcheck.properties.mistakes.catalogue.cached_calls import CACHED_CALLS, in_some_calls
from headcheck.properties.mistakes.catalogue.symptom import (
    StructuralMistake,
    Symptom,
    define_structural_mistake,
)
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

CACHES: Sequence[StructuralMistake] = (
    define_structural_mistake(
        "no_cache_returned",
        "No cache is returned: every call, including the first, should return output and cache.",
        Symptom(list_properties(decoding), crashes="^no cache comes back"),
        explains=tuple(p for p in ALL if p.group is PropertyGroup.CACHE),
    ),
    *(
        StructuralMistake(each, (Symptom(IN_PARTS, reasons={each.name}),), RESTING)
        for mistake in CACHED_CALLS
        for each in (mistake, in_some_calls(mistake))
    ),
    define_structural_mistake(
        "cache_computed_again",
        "Keys and values of earlier tokens are computed again, from what the cache holds.",
        Symptom((decoding.kept_keys_and_values_are_not_computed_again,), kinds={Kind.VALUE}),
    ),
    define_structural_mistake(
        "latents_computed_again",
        "Latents and rotated keys of earlier tokens are computed again, from what the cache holds.",
        Symptom((latents.kept_latents_and_turned_keys_are_not_computed_again,), kinds={Kind.VALUE}),
    ),
    define_structural_mistake(
        "keys_of_heads_cached",
        "The cache holds at least as many numbers as the keys of all heads; for each token its "
        "latent and its rotated key are enough.",
        Symptom((latents.a_cache_holds_less_than_keys_of_all_heads,), kinds={Kind.VALUE}),
    ),
    define_structural_mistake(
        "something_kept_besides_the_cache",
        "Something is kept outside the cache that is passed: sequences see each other.",
        Symptom(
            (
                decoding.sequences_keep_their_caches_apart,
                decoding.a_call_without_a_cache_begins_anew,
            ),
            kinds={Kind.VALUE, Kind.SHAPE},
        ),
        explains=(
            decoding.a_cache_can_be_continued_twice,
            purity.it_can_be_copied_after_a_call_with_gradients,
        ),
    ),
    define_structural_mistake(
        "cache_changed",
        "A call changes the cache that it gets: continuing from that cache again gives something "
        "else.",
        Symptom((decoding.a_cache_can_be_continued_twice,), kinds={Kind.VALUE, Kind.SHAPE}),
    ),
)
