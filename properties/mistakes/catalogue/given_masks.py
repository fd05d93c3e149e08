"""Mistakes about the masks that a caller may pass, and about results other than the output."""

from headcheck.properties.families import (
    batch,
    contract,
    list_properties,
    masking,
    padding,
    purity,
    results,
    training,
    weights,
)
from headcheck.properties.families.gradients import the_gradients_of_the_returned_weights_are_right
from headcheck.properties.mistakes.catalogue.expected_failures import COPIES, HISTORY
from headcheck.properties.mistakes.catalogue.symptom import (
    Shape,
    ShapeSymptom,
    Symptom,
    define_structural_mistake,
)
from headcheck.properties.mistakes.steps import calls
from headcheck.properties.violations.violation import Reason
from headcheck.properties.violations.violation import ViolationKind as Kind

MASKS = tuple(list_properties(masking))
RETURNED = (
    weights.the_returned_weights_are_those_used,
    weights.the_rows_of_the_returned_weights_sum_to_one,
    weights.the_weights_are_never_negative,
    weights.hidden_tokens_get_no_weight,
    the_gradients_of_the_returned_weights_are_right,
    training.the_returned_weights_are_trained_through,
)


def lacks_the_axis_of_heads(expected: Shape, got: Shape) -> bool:
    """Whether weights have the shape (batch, query, key) instead of (batch, heads, query, key)."""
    return len(expected) == 4 and got == (expected[0], *expected[2:])


def has_one_axis_more(expected: Shape, got: Shape) -> bool:
    """Whether a result has four axes, like weights, instead of three."""
    return (len(expected), len(got)) == (3, 4)


FORMS = (
    batch.the_memory_layout_does_not_matter,
    contract.the_output_has_the_right_shape,
    *MASKS,
    *RETURNED,
)

MASK_TYPES = (
    define_structural_mistake(
        "mask_dtype_not_understood",
        "A mask of some dtypes fails; it may be bool, integer or float.",
        Symptom((masking.any_number_but_zero_lets_attend,), crashes=""),
        explains=(*MASKS, purity.the_input_is_left_unchanged),
    ),
    define_structural_mistake(
        "mask_read_otherwise",
        "Some masks are not read as the statement says: True, and every number except zero, lets "
        "attend.",
        Symptom((masking.any_number_but_zero_lets_attend,), kinds={Kind.VALUE, Kind.FINITE}),
        wrappers=(
            calls.invert_bool_masks,
            calls.invert_number_masks,
            calls.let_positive_attend,
            calls.let_one_attend,
        ),
    ),
)
"""mistakes about types of masks, which show whatever attention the module computes"""
GIVEN_MASKS = (
    define_structural_mistake(
        "mask_demanded",
        "Without a mask it fails: the mask is not optional.",
        Symptom((results.the_mask_may_be_left_out,), reasons={Reason.MASK_DEMANDED}),
    ),
    *MASK_TYPES,
    define_structural_mistake(
        "mask_axes_not_understood",
        "A mask with fewer axes, or with axes of length one, is not treated like the full one that "
        "it stands for.",
        Symptom(
            (masking.a_mask_may_lack_axes, masking.every_form_of_mask_is_understood),
            kinds={Kind.VALUE, Kind.SHAPE},
            crashes="^(?!.*Boolean value of Tensor)",
        ),
        explains=(*MASKS, purity.the_input_is_left_unchanged),
    ),
    define_structural_mistake(
        "masks_of_sequences_mixed",
        "Which keys a sequence sees depends on the masks of other sequences in the batch.",
        Symptom((masking.each_sequence_has_its_own_mask,), kinds={Kind.VALUE, Kind.FINITE}),
    ),
    define_structural_mistake(
        "blocked_row_spoils_others",
        "A query that may attend to nothing changes the outputs of other queries.",
        Symptom(
            (masking.a_query_that_sees_nothing_spoils_no_other,), kinds={Kind.VALUE, Kind.FINITE}
        ),
    ),
    define_structural_mistake(
        "padded_sequence_spoils_others",
        "A sequence that is all padding changes the outputs of other sequences of the batch.",
        Symptom((padding.a_sequence_of_padding_spoils_no_other,), kinds={Kind.VALUE, Kind.FINITE}),
    ),
)
RESULTS = (
    define_structural_mistake(
        "weights_of_heads_merged",
        "The returned weights lack the axis of the heads: each head has its own weights.",
        ShapeSymptom(FORMS, lacks_the_axis_of_heads, of="weights"),
        explains=RETURNED,
    ),
    define_structural_mistake(
        "nothing_returned",
        "The function ends without returning a result.",
        Symptom(FORMS, reasons={Reason.NOTHING_RETURNED}),
        explains=RETURNED,
    ),
    define_structural_mistake(
        "other_results_returned",
        "It returns more, fewer or other results than the statement asks for.",
        Symptom(FORMS, reasons={Reason.OTHER_RESULTS}),
        ShapeSymptom(FORMS, lambda expected, got: True, of="weights"),
        explains=RETURNED,
    ),
    define_structural_mistake(
        "results_exchanged",
        "The results come in another order than the statement asks for.",
        ShapeSymptom(FORMS, has_one_axis_more, of="output"),
        explains=RETURNED,
    ),
    define_structural_mistake(
        "returned_weights_cut_off",
        "No gradient, or not all of it, flows through the weights that are returned.",
        Symptom(
            (
                the_gradients_of_the_returned_weights_are_right,
                training.the_returned_weights_are_trained_through,
            ),
            kinds={Kind.VALUE},
        ),
    ),
    define_structural_mistake(
        "not_a_number",
        "The output contains NaN, from numbers that overflow, minus infinity times zero, a row in "
        "which everything is hidden, or a division by zero.",
        Symptom((results.the_output_is_finite,), reasons={Reason.NOT_A_NUMBER}),
        explains=(*HISTORY, *COPIES),
        wrappers=(calls.return_nan,),
    ),
)
