"""Mistakes about padding: which keys it hides, in which sequence, and the outputs of padding."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import padding, scores

TIMES_MASK = "only times:(?i)mask|tok|pad|keep"
LAST_ZERO = "last fill:^-?0"
COUNTED = "only sum"

PADDING = require(
    Capability.PADDING,
    define_mistake(
        "padding_zeroed",
        "Padding is set to zero instead of hidden: the softmax still gives it weight.",
        TIMES_MASK,
    ).simulated_by(
        {"see": padding.tokens_zeroed, "permit": scores.no_mask},
        {"split": padding.projections_zeroed, "permit": scores.no_mask},
        {"split": padding.keys_and_values_zeroed, "permit": scores.no_mask},
    ),
    define_mistake(
        "padding_does_not_attend",
        "The mask acts on the rows of padding, not only on its columns; padding should attend as "
        "any token does.",
        f"{LAST_ZERO} | only fill | {TIMES_MASK}",
    ).simulated_by({"permit": padding.hidden_from_queries_too}, {"merge": padding.contexts_zeroed}),
    define_mistake(
        "padding_taken_for_last",
        "Padding is taken to be the last tokens: the mask is counted, but it says which they are.",
        COUNTED,
    ).simulated_by(permit=padding.taken_for_last),
    define_rare_mistake(
        "padding_taken_for_first",
        "Padding is taken to be the first tokens: the mask is counted, but it says which they are.",
        COUNTED,
    ).simulated_by(permit=padding.taken_for_first),
    define_rare_mistake(
        "padding_cut_by_the_longest",
        "All sequences see as many tokens as the longest one has.",
        COUNTED,
    ).simulated_by(permit=padding.as_long_as_the_longest),
    define_rare_mistake(
        "padding_hidden_if_in_all_sequences",
        "Only positions that are padding in all sequences are hidden; each sequence has its own "
        "mask.",
        "only fill",
    ).simulated_by(permit=padding.seen_in_any_sequence),
    define_rare_mistake(
        "padding_of_any_sequence_hidden",
        "Padding of one sequence is hidden in all sequences; each sequence has its own mask.",
        "only fill",
    ).simulated_by(permit=padding.seen_in_all_sequences),
    define_mistake(
        "outputs_of_padding_zeroed",
        "The outputs of padding are set to zero; they should be computed like those of any token.",
        f"{TIMES_MASK} | {LAST_ZERO}",
    ).simulated_by(finish=padding.outputs_zeroed),
)
