"""What goes wrong when keys and values are kept from call to call."""

from collections.abc import Sequence

from properties.families import decoding
from properties.mistakes.catalogue.mistake import define_mistake
from properties.mistakes.catalogue.symptom import StructuralMistake, Symptom

IN_PARTS = (
    decoding.one_token_at_a_time_gives_the_same_output,
    decoding.several_tokens_at_a_time_give_the_same_output,
)

CACHES: Sequence[StructuralMistake] = (
    StructuralMistake(
        define_mistake(
            "cache_unused",
            "A call with a cache attends to its own tokens alone: keys and values of earlier ones "
            "are not kept, or not used.",
            "",
        ),
        (Symptom("if each call attends to its own tokens alone", IN_PARTS),),
    ),
    StructuralMistake(
        define_mistake(
            "one_call_cached",
            "Earlier keys and values are lost: a cache holds no more than those of the last call.",
            "",
        ),
        (Symptom("if the cache holds the tokens of one call only", IN_PARTS),),
    ),
    StructuralMistake(
        define_mistake(
            "cache_mask_at_the_top_left",
            "With a cache the causal mask begins at the first key: the first new token sees that "
            "one alone, although it stands behind all that the cache holds.",
            "",
        ),
        (Symptom("if the first token of a call sees the first key alone", IN_PARTS),),
    ),
    StructuralMistake(
        define_mistake(
            "no_mask_with_a_cache",
            "With a cache nothing is masked: new tokens see the new ones that come after them.",
            "",
        ),
        (Symptom("if the tokens of a call see those that come after them", IN_PARTS),),
    ),
    StructuralMistake(
        define_mistake(
            "own_tokens_unseen_with_a_cache",
            "With a cache the new tokens do not attend to themselves.",
            "",
        ),
        (Symptom("does not attend to (itself|its own tokens)", IN_PARTS),),
    ),
    StructuralMistake(
        define_mistake(
            "positions_counted_anew",
            "With a cache positions are counted from the first new token, and not from the first "
            "of the sequence.",
            "",
        ),
        (Symptom("if positions are counted from the first token of each call", IN_PARTS),),
    ),
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
            "something_kept_besides_the_cache",
            "Something is kept besides the cache that is handed over: sequences see each other.",
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
        explains=(decoding.a_cache_can_be_continued_twice,),
    ),
    StructuralMistake(
        define_mistake(
            "cache_changed",
            "A cache that was handed in is not what it was after the call: going on from it again "
            "gives something else.",
            "",
        ),
        (Symptom("^(value|shape):", (decoding.a_cache_can_be_continued_twice,)),),
    ),
)
