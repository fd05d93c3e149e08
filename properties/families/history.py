"""What happened before changes no answer: earlier calls, other modules, training, copies, loading.

`properties/harness/histories.py` explains how. These are claims about memory, each with the kind of
step that its name says; the last one mixes them all.
"""

from properties.cases.case_tensors import make_tokens
from properties.contract import Capability
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.families.purity import evaluation_is_repeatable
from properties.harness.harness import LiveContext
from properties.harness.histories import (
    CALL_PROBE,
    GRADIENTS_PROBE,
    LARGE_TOKENS_PROBE,
    ONE_TOKEN_PROBE,
    TRAINING_PROBE,
    assert_no_effect,
    shuffle_steps,
)
from properties.harness.steps import (
    Rebuild,
    build_fresh_module,
    fit_for_histories,
    make_calls,
    make_evaluations,
    make_other_modules,
    make_transfers,
)
from properties.property import PropertyFamily, PropertyGroup

family_property = PropertyFamily(PropertyGroup.PURITY, FORM)
C = Capability
MIXED_STEPS = 14
"""So many steps of all kinds are mixed."""


@family_property(
    C.TOKENS,
    limit=1,
    on=fit_for_histories,
    dtypes=("float64",),
    hint="is something kept in `self` (or outside) from one call to the next?",
)
def earlier_calls_do_not_matter(context: LiveContext) -> None:
    """What it was called with before, of any length, in training or not, changes no answer."""
    steps = shuffle_steps(context, make_calls(context))
    assert_no_effect(
        context, steps, (CALL_PROBE, ONE_TOKEN_PROBE, GRADIENTS_PROBE, LARGE_TOKENS_PROBE)
    )


@family_property(
    C.TOKENS,
    after=(evaluation_is_repeatable, earlier_calls_do_not_matter),
    limit=1,
    on=fit_for_histories,
    dtypes=("float64",),
    hint="what is remembered of a tensor must not be found again by its id() or data_ptr()",
)
def new_numbers_in_the_same_tensor_are_a_new_input(context: LiveContext) -> None:
    """A tensor that is written over and given again is answered by its new numbers."""
    adapter = build_fresh_module(context)
    first = make_tokens(context.case, context.contract, "x2")
    answer = adapter.refill(first, context.x, context.mask)
    context.check_form(answer, context.x)
    context.assert_answer_unchanged(tuple(output.double() for output in answer.outputs))


@family_property(
    C.TOKENS,
    C.MODULE,
    limit=1,
    on=fit_for_histories,
    dtypes=("float64",),
    hint="keep sizes and state in `self`, not in the class or a global",
)
def other_instances_do_not_matter(context: LiveContext) -> None:
    """Other modules alive at the same time, of other sizes, change no answer."""
    built = shuffle_steps(context, make_other_modules(context))
    steps = [step for other in built for step in (other, Rebuild())]
    assert_no_effect(context, steps, (CALL_PROBE, TRAINING_PROBE))


@family_property(
    C.DROPOUT,
    after=(earlier_calls_do_not_matter,),
    limit=1,
    on=fit_for_histories,
    dtypes=("float64",),
    hint="leave the rate and self.training to nn.Dropout, train() and eval()",
)
def training_drops_again_after_an_evaluation(context: LiveContext) -> None:
    """After evaluations, and whatever else came between, training drops as it did at first."""
    assert_no_effect(context, shuffle_steps(context, make_evaluations(context)), (TRAINING_PROBE,))


@family_property(
    C.MODULE,
    C.INITIALISED,
    after=(the_weights_are_registered_and_trainable, earlier_calls_do_not_matter),
    limit=1,
    on=fit_for_histories,
    dtypes=("float64",),
    hint="is something computed from the weights kept, or shared with copies?",
)
def loading_moving_and_copying_leave_no_trace(context: LiveContext) -> None:
    """Weights loaded and loaded back, other dtypes, and copies that change, change no answer."""
    assert_no_effect(
        context, shuffle_steps(context, make_transfers(context)), (CALL_PROBE, GRADIENTS_PROBE)
    )


@family_property(
    C.MODULE,
    C.TOKENS,
    C.INITIALISED,
    C.WIDTHS,  # where sizes are fixed they are large, and a mixture costs as much as all else
    after=(
        earlier_calls_do_not_matter,
        other_instances_do_not_matter,
        loading_moving_and_copying_leave_no_trace,
    ),
    limit=1,
    on=fit_for_histories,
    dtypes=("float64",),
    hint="is something kept that only some order of calls brings to light?",
)
def no_order_of_events_matters(context: LiveContext) -> None:
    """Calls, other modules, training, loading and copies, in any order, change no answer."""
    steps = [
        *make_calls(context),
        *make_other_modules(context),
        *make_evaluations(context),
        *make_transfers(context),
    ]
    mixed = shuffle_steps(context, steps, min(MIXED_STEPS, len(steps)))
    assert_no_effect(context, mixed, (CALL_PROBE, ONE_TOKEN_PROBE, GRADIENTS_PROBE))


ALL = (
    earlier_calls_do_not_matter,
    new_numbers_in_the_same_tensor_are_a_new_input,
    other_instances_do_not_matter,
    training_drops_again_after_an_evaluation,
    loading_moving_and_copying_leave_no_trace,
    no_order_of_events_matters,
)
