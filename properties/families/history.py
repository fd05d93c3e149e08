"""What happened before changes no answer: earlier calls, other modules, training, copies, loading.

`properties/harness/histories.py` explains how. These are claims about memory, each with the kind of
step that its name says; the last one mixes them all.
"""

from properties.cases.case_tensors import tokens_of
from properties.contract import Trait
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.families.purity import evaluation_is_repeatable
from properties.harness.harness import Trial
from properties.harness.histories import (
    GRADIENTS,
    IN_TRAINING,
    LARGE_TOKENS,
    ONE_TOKEN,
    WHOLE,
    in_some_order,
    must_change_nothing,
)
from properties.harness.steps import (
    Rebuild,
    calls,
    evaluations,
    for_histories,
    others,
    transfers,
    unharmed,
)
from properties.property import Claims, Group

claims = Claims(Group.PURITY, FORM)
T = Trait
SEVERAL = 14
"""So many steps of all kinds are mixed."""


@claims(
    T.TOKENS,
    limit=1,
    on=for_histories,
    dtypes=("float64",),
    hint="is something kept in `self` (or outside) from one call to the next?",
)
def earlier_calls_do_not_matter(trial: Trial) -> None:
    """What it was called with before, of any length, in training or not, changes no answer."""
    steps = in_some_order(trial, calls(trial))
    must_change_nothing(trial, steps, (WHOLE, ONE_TOKEN, GRADIENTS, LARGE_TOKENS))


@claims(
    T.TOKENS,
    after=(evaluation_is_repeatable, earlier_calls_do_not_matter),
    limit=1,
    on=for_histories,
    dtypes=("float64",),
    hint="what is remembered of a tensor must not be found again by its id() or data_ptr()",
)
def new_numbers_in_the_same_tensor_are_a_new_input(trial: Trial) -> None:
    """A tensor that is written over and given again is answered by its new numbers."""
    instance = unharmed(trial)
    first = tokens_of(trial.case, trial.contract, "x2")
    answer = instance.refill(first, trial.x, trial.mask)
    trial.check_form(answer, trial.x)
    trial.must_be_as_before(tuple(output.double() for output in answer.outputs))


@claims(
    T.TOKENS,
    T.MODULE,
    limit=1,
    on=for_histories,
    dtypes=("float64",),
    hint="keep sizes and state in `self`, not in the class or a global",
)
def other_instances_do_not_matter(trial: Trial) -> None:
    """Other modules alive at the same time, of other sizes, change no answer."""
    built = in_some_order(trial, others(trial))
    steps = [step for other in built for step in (other, Rebuild())]
    must_change_nothing(trial, steps, (WHOLE, IN_TRAINING))


@claims(
    T.DROPOUT,
    after=(earlier_calls_do_not_matter,),
    limit=1,
    on=for_histories,
    dtypes=("float64",),
    hint="leave the rate and self.training to nn.Dropout, train() and eval()",
)
def training_drops_again_after_an_evaluation(trial: Trial) -> None:
    """After evaluations, and whatever else came between, training drops as it did at first."""
    must_change_nothing(trial, in_some_order(trial, evaluations(trial)), (IN_TRAINING,))


@claims(
    T.MODULE,
    T.INITIALISED,
    after=(the_weights_are_registered_and_trainable, earlier_calls_do_not_matter),
    limit=1,
    on=for_histories,
    dtypes=("float64",),
    hint="is something computed from the weights kept, or shared with copies?",
)
def loading_moving_and_copying_leave_no_trace(trial: Trial) -> None:
    """Weights loaded and loaded back, other dtypes, and copies that change, change no answer."""
    must_change_nothing(trial, in_some_order(trial, transfers(trial)), (WHOLE, GRADIENTS))


@claims(
    T.MODULE,
    T.TOKENS,
    T.INITIALISED,
    T.WIDTHS,  # where sizes are fixed they are large, and a mixture costs as much as all else
    after=(
        earlier_calls_do_not_matter,
        other_instances_do_not_matter,
        loading_moving_and_copying_leave_no_trace,
    ),
    limit=1,
    on=for_histories,
    dtypes=("float64",),
    hint="is something kept that only some order of calls brings to light?",
)
def no_order_of_events_matters(trial: Trial) -> None:
    """Calls, other modules, training, loading and copies, in any order, change no answer."""
    steps = [*calls(trial), *others(trial), *evaluations(trial), *transfers(trial)]
    mixed = in_some_order(trial, steps, min(SEVERAL, len(steps)))
    must_change_nothing(trial, mixed, (WHOLE, ONE_TOKEN, GRADIENTS))


ALL = (
    earlier_calls_do_not_matter,
    new_numbers_in_the_same_tensor_are_a_new_input,
    other_instances_do_not_matter,
    training_drops_again_after_an_evaluation,
    loading_moving_and_copying_leave_no_trace,
    no_order_of_events_matters,
)
