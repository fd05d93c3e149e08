"""Mistakes in parameters, in their registration, and in tensors that must move with a module."""

from headcheck.properties.families import (
    contract,
    device,
    dropout,
    gradients,
    history,
    initialisation,
    list_properties,
    purity,
    results,
    training,
    transfer,
    weights,
)
from headcheck.properties.mistakes.catalogue.expected_failures import COPIES, HALVES, HISTORY
from headcheck.properties.mistakes.catalogue.symptom import Symptom, define_structural_mistake
from headcheck.properties.mistakes.steps import calls
from headcheck.properties.violations.violation import Reason

TRANSFERRED = (transfer.afterwards_the_two_modules_are_independent,)
UNSET = (
    calls.add_kept_bias,
    calls.add_kept_bias_to_queries,
    calls.add_kept_bias_to_values,
    calls.apply_kept_layer,
)

REGISTRATION = (
    define_structural_mistake(
        "weight_frozen",
        "A weight has requires_grad=False: training never changes it.",
        Symptom((contract.the_weights_are_registered_and_trainable,), reasons={Reason.FROZEN}),
        Symptom(TRANSFERRED, reasons={Reason.FROZEN}),
        explains=(
            gradients.the_gradients_of_the_weights_are_right,
            gradients.every_weight_gets_a_gradient,
            *list_properties(training),
            history.loading_and_moving_keep_the_parameters,
        ),
    ),
    define_structural_mistake(
        "weight_not_registered",
        "A weight is not a parameter of the module: no optimizer finds it. Plain tensors, buffers, "
        "and what a plain list or dict holds are not parameters.",
        Symptom(
            (contract.the_weights_are_registered_and_trainable,), reasons={Reason.UNREGISTERED}
        ),
        Symptom(TRANSFERRED, reasons={Reason.UNREGISTERED}),
        explains=(
            *COPIES,
            *HISTORY,
            *list_properties(training),
            *list_properties(device),
            *list_properties(initialisation),
            *HALVES,
            purity.it_works_as_a_part_of_another_module,
            gradients.the_gradients_of_the_weights_are_right,
            gradients.every_weight_gets_a_gradient,
            contract.the_biases_follow_the_option,
            weights.a_constant_added_to_all_keys_changes_nothing,
        ),
        causes=("dropout_in_evaluation",),
    ),
    define_structural_mistake(
        "parameter_too_many",
        "The module has a parameter that the statement does not name; optimizers train it, too.",
        Symptom((contract.there_are_no_other_parameters,), reasons={Reason.EXTRA_PARAMETERS}),
        explains=(*COPIES, *HISTORY, *list_properties(training), *list_properties(dropout)),
        wrappers=UNSET,
    ),
    define_structural_mistake(
        "bias_not_there",
        "A bias that the statement asks for is missing.",
        Symptom((contract.there_are_no_other_parameters,), reasons={Reason.BIASES_ABSENT}),
        Symptom((contract.the_biases_follow_the_option,), reasons={Reason.BIAS_ABSENT}),
        explains=(
            weights.the_output_bias_shifts_the_output,
            weights.a_constant_added_to_all_keys_changes_nothing,
        ),
        said_by=("bias_missing",),
    ),
    define_structural_mistake(
        "weight_missing",
        "A weight that the exercise names does not exist under that name.",
        Symptom(
            (contract.the_weights_are_where_the_exercise_says,), reasons={Reason.WEIGHT_ABSENT}
        ),
        Symptom((contract.there_are_no_other_parameters,), reasons={Reason.WEIGHTS_ABSENT}),
        explains=(weights.the_output_bias_shifts_the_output,),
    ),
    define_structural_mistake(
        "weight_of_another_shape",
        "A weight has another shape than the exercise asks for.",
        Symptom((contract.the_weights_are_where_the_exercise_says,), reasons={Reason.STORED_SHAPE}),
    ),
    define_structural_mistake(
        "built_for_another_width",
        "The output has another width than the exercise asks for: the module is built with other "
        "arguments.",
        Symptom(
            (contract.the_weights_are_where_the_exercise_says,), reasons={Reason.BUILT_OTHERWISE}
        ),
    ),
    define_structural_mistake(
        "bias_unasked",
        "There is a bias although qkv_bias does not ask for it.",
        Symptom((contract.the_biases_follow_the_option,), reasons={Reason.BIAS_UNASKED}),
        code_matchers="unused:bias",
        explains=(contract.there_are_no_other_parameters, *COPIES, *HISTORY),
        wrappers=UNSET,
    ),
    define_structural_mistake(
        "tensor_left_behind",
        "A tensor is not on the device of the input: it is made without device=, or with a fixed "
        "one, or kept as an attribute that is neither a parameter nor a buffer.",
        Symptom(
            (device.it_moves_to_another_device, results.the_device_is_kept),
            crashes="same device|stayed on",
        ),
        explains=(device.it_moves_to_another_dtype,),
    ),
)
