"""Mistakes in results, their dtypes and shapes, and in the sizes of inputs."""

from headcheck.properties.families import (
    batch,
    constructor,
    contract,
    cross,
    device,
    dropout,
    dropped_pairs,
    gradients,
    initialisation,
    list_properties,
    precision,
    purity,
    results,
    scale,
    training,
    weights,
)
from headcheck.properties.mistakes.catalogue.expected_failures import (
    COPIES,
    DTYPES,
    HALVES,
    HISTORY,
    KEPT,
    LENGTHS,
    SHAPES,
    SIZES,
)
from headcheck.properties.mistakes.catalogue.symptom import (
    ShapeSymptom,
    Symptom,
    define_structural_mistake,
    lacks_axes_of_length_one,
)
from headcheck.properties.mistakes.steps import calls
from headcheck.properties.violations.violation import Reason
from headcheck.properties.violations.violation import ViolationKind as Kind

LARGE_SCORES = (
    scale.scores_in_the_millions_are_survived,
    scale.a_constant_added_to_the_scores_cancels,
)

FORMS = (
    define_structural_mistake(
        "result_in_float32",
        "A result is float32 although the input is float64; it should have the input's dtype.",
        Symptom((results.the_dtype_is_kept,), reasons={Reason.BECAME_FLOAT32}),
        code_matchers="only cast:float",
        explains=(precision.it_computes_in_float64, device.it_moves_to_another_dtype, *HALVES),
        wrappers=(calls.return_float32,),
    ),
    define_structural_mistake(
        "dtype_written_in_the_code",
        "Two dtypes meet: something is made in, or converted to, a fixed dtype instead of the "
        "input's.",
        Symptom(DTYPES, crashes="same dtype|expected scalar type|but got: |dtype"),
        code_matchers="only cast:float|half",
        explains=(*DTYPES, dropout.every_call_drops_anew),
        wrappers=(calls.cast_input_to_float32,),
    ),
    define_structural_mistake(
        "axes_of_length_one_squeezed",
        "Axes of length one are lost: squeeze() removes them although they belong there.",
        ShapeSymptom(SHAPES, lacks_axes_of_length_one),
        code_matchers="only squeeze",
        wrappers=(calls.squeeze_result, calls.squeeze_batch, calls.squeeze_width),
    ),
    define_structural_mistake(
        "memory_viewed",
        "The input is reshaped by view(), which fails if its memory is not contiguous.",
        Symptom((batch.the_memory_layout_does_not_matter,), crashes="view size is not"),
        wrappers=(calls.view_input,),
    ),
    define_structural_mistake(
        "memory_read_in_order",
        "The memory of the input is read as if it were contiguous; in a transposed input it is "
        "not.",
        Symptom((batch.the_memory_layout_does_not_matter,), kinds={Kind.VALUE}),
        wrappers=(calls.read_memory_in_order,),
    ),
    define_structural_mistake(
        "lengths_do_not_fit",
        "It fails on sequences that are shorter than the context, or than an earlier one: a "
        "tensor, such as the mask, has another length than the input.",
        Symptom((results.every_length_up_to_the_context_works,), crashes=LENGTHS),
        explains=(*HISTORY, device.it_moves_to_another_device),
        wrappers=(calls.expect_full_context, calls.keep_first_length),
    ),
    define_structural_mistake(
        "sizes_kept",
        "Something as large as the input of an earlier call is kept, such as a mask, and used "
        "where an input has another length or another number of sequences.",
        Symptom(KEPT, crashes=LENGTHS, after=""),
        explains=(*HISTORY, *COPIES, *list_properties(device)),
        wrappers=(calls.keep_first_length, calls.expect_first_batch, calls.keep_first_mask),
    ),
    define_structural_mistake(
        "keys_as_many_as_queries",
        "It fails where there are more or fewer keys than queries: the size of one input is used "
        "for the other.",
        Symptom(
            (
                cross.keys_and_values_come_from_their_own_tokens,
                cross.there_may_be_fewer_keys_than_queries,
            ),
            crashes=LENGTHS,
        ),
    ),
    define_structural_mistake(
        "batches_do_not_fit",
        "A batch fails if it is larger or smaller than others: its size is written in the code, or "
        "is that of an earlier call.",
        Symptom((contract.a_batch_of_one_stays_a_batch,), crashes=LENGTHS),
        Symptom((purity.the_input_is_left_unchanged,), crashes=LENGTHS),
        explains=HISTORY,
    ),
)

NUMBERS_AND_SIZES = (
    define_structural_mistake(
        "size_written_in_the_code",
        "Small sizes are right and larger ones wrong: look for a fixed number that larger inputs "
        "exceed, such as the length of a mask, a chunk or a window.",
        Symptom(SIZES, kinds={Kind.VALUE, Kind.SHAPE, Kind.FINITE}),
        explains=SIZES,
    ),
    define_structural_mistake(
        "large_scores_not_survived",
        "With scores of millions it is wrong: hidden scores are filled with a number that is not "
        "negative enough, or exponentials are taken without subtracting the largest score.",
        Symptom(LARGE_SCORES, kinds={Kind.VALUE, Kind.FINITE}),
        explains=LARGE_SCORES,
    ),
    define_structural_mistake(
        "large_numbers_cut_off",
        "Very large or very small numbers are treated differently: cut off, rounded, or out of the "
        "range of a narrower dtype.",
        Symptom(
            (
                scale.large_tokens_and_small_weights_cancel,
                weights.large_and_small_values_are_averaged_alike,
            ),
            kinds={Kind.VALUE, Kind.FINITE},
        ),
        explains=(gradients.gradients_grow_with_the_loss, *HALVES),
    ),
    define_structural_mistake(
        "gradients_cut_off",
        "Gradients are cut off, rounded or scaled on their way back: they do not grow with the "
        "loss.",
        Symptom((gradients.gradients_grow_with_the_loss,), kinds={Kind.VALUE}),
    ),
    define_structural_mistake(
        "gradients_random",
        "Two backward passes give different gradients: something on the way back is random.",
        Symptom((gradients.the_same_backward_gives_the_same_gradients,), kinds={Kind.VALUE}),
        explains=(gradients.the_gradient_predicts_a_small_step, *list_properties(training)),
    ),
    define_structural_mistake(
        "drops_the_same_again",
        "Dropout drops the same weights again, in a second call or a second layer.",
        Symptom((dropout.every_call_drops_anew,), reasons={Reason.DROPPED_AGAIN}),
        explains=(
            dropped_pairs.no_two_weights_are_dropped_together,
            training.training_gives_the_equation_of_what_it_kept,
        ),
    ),
    define_structural_mistake(
        "weights_dropped_together",
        "Dropout does not decide about every weight independently: some are always dropped "
        "together.",
        Symptom(
            (dropped_pairs.no_two_weights_are_dropped_together,), reasons={Reason.DROPPED_TOGETHER}
        ),
        explains=tuple(list_properties(dropout)),
    ),
)

STARTS = (
    define_structural_mistake(
        "starts_alike",
        "Weights that should start from different numbers start from the same ones, or from "
        "constants.",
        Symptom(
            (initialisation.the_projections_start_different,),
            reasons={Reason.SAME_START, Reason.CONSTANT_START},
        ),
        Symptom((initialisation.the_heads_start_different,), reasons={Reason.SAME_START}),
        said_by=("one_head_repeated",),
    ),
    define_structural_mistake(
        "width_not_checked",
        "The constructor does not refuse a width that the number of heads does not divide.",
        Symptom(
            (constructor.heads_that_do_not_divide_the_width_are_refused,),
            reasons={Reason.NOT_REFUSED},
        ),
    ),
)
