"""Mistakes in state: side effects of calls, and state shared across calls, copies or modules."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from headcheck.properties.families import (
    device,
    gradients,
    history,
    initialisation,
    list_properties,
    purity,
    training,
    values,
)
from headcheck.properties.mistakes.catalogue.expected_failures import (
    COPIES,
    DROPPING,
    HISTORY,
    KEPT,
    LENGTHS,
)
from headcheck.properties.mistakes.catalogue.symptom import (
    ANY_KIND,
    Symptom,
    define_structural_mistake,
)
from headcheck.properties.mistakes.steps import calls
from headcheck.properties.mistakes.steps.calls import Attend, CallWrapper, Result
from headcheck.properties.violations.violation import Reason
from headcheck.properties.violations.violation import ViolationKind as Kind

IsUsed = Callable[[nn.Module], bool]


def _is_unrecorded(module: nn.Module) -> bool:
    return not torch.is_grad_enabled()


def _is_evaluating(module: nn.Module) -> bool:
    return not module.training


def _use_kept(
    names: frozenset[str],
    is_used: IsUsed,
    renews: bool,
    module: nn.Module,
    attend: Attend,
    x: Tensor,
    mask: Tensor | None,
) -> Result:
    """Attend with the weights of these names as they were when they were first used.

    If `renews` is true, the kept weights are forgotten in every other kind of call.
    """
    kept: dict[str, Tensor] = module.__dict__.setdefault("kept_weights", {})
    if not is_used(module):
        if renews:
            kept.clear()
        return attend(x, mask)
    own = {name: p for name, p in module.named_parameters() if name in names}
    for name, parameter in own.items():
        kept.setdefault(name, parameter.detach().clone())
    return _attend_with(own, kept, attend, x, mask)


def _attend_with(
    own: Mapping[str, nn.Parameter],
    numbers: Mapping[str, Tensor],
    attend: Attend,
    x: Tensor,
    mask: Tensor | None,
) -> Result:
    before = {name: parameter.data for name, parameter in own.items()}
    try:
        for name, parameter in own.items():
            parameter.data = numbers[name].to(parameter)
        return attend(x, mask)
    finally:
        for name, parameter in own.items():
            parameter.data = before[name]


ALL = frozenset({"W_q", "W_k", "W_v", "W_o"})
ROLES = (ALL, frozenset({"W_v"}), frozenset({"W_q"}), frozenset({"W_k"}), frozenset({"W_o"}))
TIMES = ((_is_unrecorded, False), (_is_evaluating, True))
KEPT_WEIGHTS: tuple[CallWrapper, ...] = tuple(
    partial(_use_kept, names, is_used, renews) for names in ROLES for is_used, renews in TIMES
)
"""ways to keep weights, in order of how much they break"""


SIDE_EFFECTS = (
    define_structural_mistake(
        "input_changed_in_place",
        "The input is changed in place: the caller's tensor has other numbers afterwards.",
        Symptom((purity.the_input_is_left_unchanged,), reasons={Reason.INPUT_WRITTEN_OVER}),
        code_matchers="only in_place",
        wrappers=(
            calls.halve_input_first,
            calls.halve_input_unrecorded,
            calls.halve_input_last,
            calls.reshape_input,
        ),
    ),
    define_structural_mistake(
        "mask_changed_in_place",
        "The mask is changed in place: the caller's mask has other numbers afterwards.",
        Symptom((purity.the_input_is_left_unchanged,), reasons={Reason.MASK_WRITTEN_OVER}),
        code_matchers="only in_place",
        wrappers=(calls.invert_mask_first, calls.open_mask_last),
    ),
    define_structural_mistake(
        "input_made_to_require_gradients",
        "The code makes the input require gradients; only the caller may decide that.",
        Symptom((purity.the_input_is_left_unchanged,), reasons={Reason.INPUT_REQUIRES_GRAD}),
        code_matchers="only in_place:requires_grad",
        explains=(gradients.each_argument_gets_its_gradient_alone,),
        wrappers=(calls.require_input_gradients,),
    ),
    define_structural_mistake(
        "random_numbers_touched",
        "It sets a seed, or draws random numbers that no dropout in training needs.",
        Symptom(
            (
                purity.evaluation_leaves_the_random_numbers_alone,
                values.no_dropout_means_no_difference,
            ),
            reasons={Reason.RANDOM_STATE_MOVED},
        ),
        code_matchers="only seed",
        wrappers=(calls.set_seed, calls.draw_number),
    ),
    define_structural_mistake(
        "mode_switched",
        "A call switches the module between training and evaluation.",
        Symptom((purity.the_training_flag_is_left_alone,), reasons={Reason.MODE_CHANGED}),
        wrappers=(calls.switch_to_evaluation,),
    ),
    define_structural_mistake(
        "settings_changed",
        "It changes a setting of torch that other code depends on, and does not undo it.",
        Symptom((purity.settings_of_torch_are_left_alone,), reasons={Reason.SETTINGS_CHANGED}),
    ),
    define_structural_mistake(
        "parameters_changed",
        "A call changes the parameters or buffers of the module.",
        Symptom(
            (purity.parameters_and_buffers_are_left_unchanged,), reasons={Reason.STATE_WRITTEN_OVER}
        ),
        code_matchers="only in_place",
        explains=HISTORY,
        wrappers=(calls.halve_parameters,),
    ),
    define_structural_mistake(
        "config_changed",
        "It changes the config object that it was given.",
        Symptom((purity.the_config_is_left_unchanged,), reasons={Reason.CONFIG_CHANGED}),
    ),
    define_structural_mistake(
        "result_memory_reused",
        "The memory of the result is reused: a later call writes over it.",
        Symptom((purity.earlier_results_are_left_unchanged,), reasons={Reason.RESULT_WRITTEN_OVER}),
        code_matchers="only in_place",
        explains=(purity.results_may_be_written_over,),
        wrappers=(calls.write_over_last_result,),
    ),
    define_structural_mistake(
        "result_memory_shared",
        "The result shares memory with something that the module, or its caller, still uses.",
        Symptom(
            (purity.results_may_be_written_over,),
            kinds={Kind.VALUE},
            without={Reason.RESULT_IS_VIEW},
        ),
    ),
    define_structural_mistake(
        "result_is_a_view",
        "The result is a view into which torch allows no writing while gradients are recorded.",
        Symptom((purity.results_may_be_written_over,), reasons={Reason.RESULT_IS_VIEW}),
    ),
    define_structural_mistake(
        "training_changes_the_answer",
        "Training gives another answer than evaluation although there is no dropout.",
        Symptom(
            (values.no_dropout_means_no_difference,),
            kinds={Kind.VALUE},
            without={Reason.RANDOM_STATE_MOVED},
        ),
        explains=(*HISTORY, *list_properties(training), *DROPPING),
        wrappers=(calls.double_in_training,),
    ),
)

STATE = (
    define_structural_mistake(
        "gradients_change_the_answer",
        "The answer differs when gradients are recorded.",
        Symptom((device.gradients_on_or_off_is_the_same_answer,), kinds={Kind.VALUE}),
        explains=HISTORY,
        wrappers=(calls.double_when_recorded,),
    ),
    define_structural_mistake(
        "weights_kept",
        "The module keeps results computed from the weights, and uses them after the weights "
        "change.",
        Symptom(
            (history.new_weights_are_used_at_once, training.a_weight_written_alone_is_used_at_once),
            kinds={Kind.VALUE},
        ),
        explains=(*HISTORY, *COPIES, training.a_training_step_moves_every_weight),
        wrappers=KEPT_WEIGHTS,
    ),
    define_structural_mistake(
        "answer_kept_for_a_tensor",
        "An answer, or a part of it, is kept for a tensor and returned again although the numbers "
        "in the tensor have changed.",
        Symptom((history.new_numbers_in_the_same_tensor_are_a_new_input,), kinds={Kind.VALUE}),
        wrappers=(calls.keep_answer_of_memory,),
    ),
    define_structural_mistake(
        "instances_share_state",
        "Modules share state: the output of one depends on others.",
        Symptom(
            (history.other_instances_do_not_matter,),
            kinds=ANY_KIND,
            crashes="",
            after="another module",
        ),
        Symptom((history.other_instances_do_not_matter,), crashes=LENGTHS),
        explains=(*HISTORY, *COPIES, initialisation.every_module_starts_anew),
    ),
    define_structural_mistake(
        "copies_differ",
        "A copy, or a module that loads the weights, is not the same as the original, or still "
        "uses the original.",
        Symptom(COPIES, kinds={Kind.VALUE, Kind.SHAPE}),
        explains=(
            *COPIES,
            training.a_copy_is_trained_by_itself,
            history.loading_moving_and_copying_leave_no_trace,
            history.no_order_of_events_matters,
        ),
    ),
    define_structural_mistake(
        "state_kept",
        "Something is kept from one call to the next: the output of a call depends on those before "
        "it.",
        Symptom(KEPT, kinds={Kind.VALUE, Kind.SHAPE, Kind.FINITE}),
        explains=(*HISTORY, *COPIES, *list_properties(device)),
        # The first one breaks most, and is tried first: it saves the others' time.
        wrappers=(
            calls.grow_with_every_call,
            calls.keep_first_result,
            calls.keep_first_input,
            calls.keep_first_keys,
            calls.keep_first_values,
            calls.go_on_from_last_call,
            calls.go_on_whatever_comes,
            calls.average_with_last_result,
            calls.average_with_last_result_and_its_graph,
        ),
    ),
    define_structural_mistake(
        "moving_leaves_a_trace",
        "Loading, moving or copying the module changes what it computes afterwards.",
        Symptom((history.loading_moving_and_copying_leave_no_trace,), kinds={Kind.VALUE}),
        explains=(history.no_order_of_events_matters,),
    ),
)
