"""Mistakes in training, construction and torch's own protocol for modules."""

import torch

from headcheck.properties.families import (
    constructor,
    device,
    dropout,
    gradients,
    history,
    list_properties,
    masking,
    precision,
    purity,
    results,
    training,
)
from headcheck.properties.families.initialisation import every_module_starts_anew
from headcheck.properties.mistakes.catalogue.dropout import OTHER
from headcheck.properties.mistakes.catalogue.expected_failures import HALVES
from headcheck.properties.mistakes.catalogue.symptom import (
    ANY_KIND,
    Symptom,
    define_structural_mistake,
)
from headcheck.properties.mistakes.steps.calls import CallWrapper, change_results
from headcheck.properties.violations.violation import Reason
from headcheck.properties.violations.violation import ViolationKind as Kind


def _round_float32(dtype: torch.dtype) -> CallWrapper:
    """Round results in float32 to another dtype."""
    return change_results(
        lambda module, t: t.to(dtype).to(t.dtype) if t.dtype is torch.float32 else t
    )


TRAINING = tuple(list_properties(training))

PROTOCOL = (
    define_structural_mistake(
        "arguments_in_another_order",
        "The arguments cannot be given in the order of the statement, by position.",
        Symptom(
            (constructor.its_arguments_may_be_given_by_position,),
            kinds={Kind.CONSTRUCTION},
            crashes="",
        ),
    ),
    define_structural_mistake(
        "another_default",
        "An argument that is left out has not its default.",
        Symptom((constructor.arguments_left_out_have_their_defaults,), kinds=ANY_KIND, crashes=""),
    ),
    define_structural_mistake(
        "config_asked_for_more",
        "It reads a field of the config that the exercise does not name.",
        Symptom((constructor.the_config_holds_all_it_needs,), crashes="^AttributeError"),
    ),
    define_structural_mistake(
        "module_protocol_broken",
        "It does not do what torch asks of every module: print, switch modes, load, call hooks, be "
        "a part or a base of another module.",
        Symptom((purity.it_works_as_a_part_of_another_module,), kinds=ANY_KIND, crashes=""),
    ),
    define_structural_mistake(
        "parameters_replaced",
        "Loading, moving or copying puts other parameters in place of those that an optimizer "
        "knows, or changes their flags.",
        Symptom((history.loading_and_moving_keep_the_parameters,), kinds=ANY_KIND, crashes=""),
        explains=(purity.a_pickled_module_gives_the_same_output, device.it_moves_to_another_dtype),
    ),
    define_structural_mistake(
        "seed_set_when_built",
        "The constructor sets the random seed, so all modules start with the same weights.",
        Symptom((every_module_starts_anew,), kinds={Kind.VALUE}),
        code_matchers="only seed",
    ),
    define_structural_mistake(
        "fused_kernel_not_called",
        "It does not call F.scaled_dot_product_attention, which the exercise asks for.",
        Symptom((results.it_goes_through_the_fused_attention,), reasons={Reason.FUSED_NOT_CALLED}),
        said_by=("input_returned", "zeros_returned"),
    ),
    define_structural_mistake(
        "digits_lost_in_float32",
        "Given float32, the output has fewer digits than float32: some step rounds it.",
        Symptom((precision.float32_is_exact_to_float32,), kinds={Kind.VALUE}),
        explains=HALVES,
        wrappers=(_round_float32(torch.bfloat16), _round_float32(torch.float16)),
    ),
    define_structural_mistake(
        "precision_lost",
        "In 16 bits it goes wrong where plain torch does not: something, such as positions, needs "
        "more digits, or has a dtype of its own.",
        Symptom(HALVES, kinds={Kind.VALUE, Kind.FINITE, Kind.DTYPE}),
        explains=HALVES,
    ),
    define_structural_mistake(
        "gradients_where_none_are_asked",
        "A gradient arrives only in some modes, or only if other tensors require one, too.",
        Symptom((training.gradients_go_only_where_they_are_required,), kinds={Kind.VALUE}),
        explains=(training.gradients_add_up_over_calls,),
    ),
    define_structural_mistake(
        "gradients_do_not_add_up",
        "The gradients of several calls do not add up until they are cleared.",
        Symptom((training.gradients_add_up_over_calls,), kinds={Kind.VALUE}),
        explains=TRAINING,
    ),
    define_structural_mistake(
        "gradients_changed",
        "The numbers are right, and their gradients are not: something, such as detach(), a hook, "
        "a custom backward, or a function without a slope at some numbers, cuts or changes them on "
        "the way back.",
        Symptom(
            (
                gradients.the_gradient_of_the_input_is_right,
                gradients.the_gradients_of_the_weights_are_right,
            ),
            kinds={Kind.VALUE},
            without={Reason.NO_GRADIENT},
        ),
        code_matchers="only detach",
        explains=(
            *list_properties(gradients),
            *TRAINING,
            *HALVES,
            masking.derivatives_reach_only_the_past,
        ),
    ),
    define_structural_mistake(
        "random_numbers_on_the_way_back",
        "The backward draws random numbers, too: the recomputed weights drop other weights.",
        Symptom(TRAINING, crashes="its backward changes the state of the random numbers"),
        explains=(*TRAINING, dropout.every_call_drops_anew),
    ),
    define_structural_mistake(
        "dropped_besides_the_weights",
        "Besides the attention weights something else is dropped, such as values or outputs of "
        "heads: single coordinates vanish, too.",
        Symptom(
            (dropout.dropout_acts_on_the_attention_weights,), reasons={Reason.COORDINATES_DROPPED}
        ),
        code_matchers=OTHER,
        explains=(*TRAINING, *list_properties(dropout)),
    ),
    define_structural_mistake(
        "dropped_otherwise",
        "In training the output is not that of the equation with some weights dropped and the "
        "others scaled up.",
        Symptom(
            (
                dropout.dropout_scales_up_what_it_keeps,
                dropout.dropout_acts_on_the_attention_weights,
                training.training_gives_the_equation_of_what_it_kept,
            ),
            kinds={Kind.VALUE},
        ),
        explains=(*TRAINING, *list_properties(dropout)),
    ),
    define_structural_mistake(
        "dropout_missing_on_the_way_back",
        "In training the gradients are not those of what dropout kept: dropout is left out or "
        "drawn anew on the way back, or something is changed unseen by autograd.",
        Symptom((training.the_gradients_in_training_are_right,), kinds={Kind.VALUE}),
        explains=TRAINING,
    ),
)
