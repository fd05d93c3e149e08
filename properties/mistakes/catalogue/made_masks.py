"""Mistakes about masks that a module makes of valid lengths, or of packed documents."""

from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import made_masks
from headcheck.properties.terms.capability import Capability

MADE_MASKS = (
    *require(
        Capability.LENGTHS,
        define_mistake(
            "one_key_more_than_the_length",
            "One key more than the length is visible: with a length of n the keys 0 to n - 1 are.",
            "compare | arange",
        ).simulated_by(permit=made_masks.longer_by(1)),
        define_mistake(
            "one_key_less_than_the_length",
            "The last key of each length is hidden: with a length of n the keys 0 to n - 1 are "
            "visible.",
            "compare | arange",
        ).simulated_by(permit=made_masks.longer_by(-1)),
        define_mistake(
            "lengths_of_other_sequences",
            "The lengths are repeated for the heads in the wrong order, so heads get the lengths "
            "of other sequences: the heads of one sequence follow one another.",
            "repeat",
        ).simulated_by(permit=made_masks.repeated_in_the_wrong_order),
        define_rare_mistake(
            "lengths_from_the_end",
            "The last keys are visible instead of the first.",
            "compare | arange",
        ).simulated_by(permit=made_masks.counted_from_the_end),
    ),
    *require(
        Capability.DOCUMENTS,
        define_mistake(
            "earlier_documents_visible",
            "Tokens see earlier documents, too; they should see their own only.",
            "compare | fill",
        ).simulated_by(permit=made_masks.earlier_documents_too),
        define_mistake(
            "documents_begin_late",
            "The first token of each document is counted with the document before it.",
            "compare | cumsum",
        ).simulated_by(permit=made_masks.begun_a_token_late),
    ),
)
