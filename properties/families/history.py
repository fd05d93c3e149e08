"""Nothing that happened before changes an answer: calls, other modules, training, copies, loading.

`properties/harness/histories.py` explains how this is checked. Each property uses the kind of steps
that its name says; the last property mixes all kinds.
"""

import functools
import itertools

from headcheck.properties.cases.case_tensors import make_tokens
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM, the_weights_are_registered_and_trainable
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.histories import (
    CALL_PROBE,
    GRADIENTS_PROBE,
    LARGE_TOKENS_PROBE,
    ONE_TOKEN_PROBE,
    TRAINING_PROBE,
    assert_no_effect,
    assert_no_first_effect,
    shuffle_steps,
)
from headcheck.properties.harness.module_adapter import ModuleAdapter
from headcheck.properties.harness.steps import (
    CallAtEveryLength,
    Rebuild,
    build_fresh_module,
    fit_for_histories,
    fit_for_moves,
    keep_for_histories,
    make_calls,
    make_evaluations,
    make_first_calls,
    make_other_modules,
    make_transfers,
)
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.violations.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.PURITY, FORM)
FIRST_CALL_SIZES = (
    {"batch": 2, "tokens": 4, "context_length": 6, "d_in": 5, "heads": 2, "head_dim": 3},
    {"batch": 1, "tokens": 130, "context_length": 150, "d_in": 3, "heads": 1, "head_dim": 2},
)
"""the sizes of a first call; the state that a module keeps may depend on a large length"""
FEW_TOKENS = 16
"""With more tokens only some first calls are tried, since two loops in Python take long."""
MANY_LENGTHS = 66
"""How many lengths are tried: a cache of masks may have room for 64."""
REUSES = ("kept", "freed", "grown")
"""how the memory of one input may be reused for the next: see `Module.refill`"""
MIXED_STEPS = 7
"""how many calls, evaluations and other modules are mixed with all steps that load, move and copy
"""


history_property = functools.partial(
    family_property, limit=1, on=fit_for_histories, dtypes=("float64",)
)


@history_property(
    C.TOKENS, hint="is something kept, in `self` or outside, from call to call?", usual=1
)
def earlier_calls_do_not_matter(context: LiveContext) -> None:
    """Earlier calls, of any length and in any mode, do not change the output."""
    probes = CALL_PROBE, ONE_TOKEN_PROBE, GRADIENTS_PROBE, LARGE_TOKENS_PROBE
    assert_no_effect(context, shuffle_steps(context, make_calls(context)), probes)


@family_property(
    C.TOKENS,
    after=(earlier_calls_do_not_matter,),
    sizes=FIRST_CALL_SIZES,
    on=keep_for_histories,
    dtypes=("float64",),
    hint="does the first call make something that is never updated?",
    usual=0,
)
def the_first_call_does_not_matter(context: LiveContext) -> None:
    """The first call, with any input and in any mode, does not change later outputs."""
    steps = make_first_calls(context)
    if context.case.tokens > FEW_TOKENS:
        lengths = CallAtEveryLength(MANY_LENGTHS)
        assert_no_first_effect(context, (*steps[:3], lengths), (CALL_PROBE, ONE_TOKEN_PROBE))
    else:
        assert_no_first_effect(context, steps, (CALL_PROBE, GRADIENTS_PROBE))


@history_property(
    C.TOKENS,
    after=(evaluation_is_repeatable, earlier_calls_do_not_matter),
    hint="a tensor that was seen before may hold other numbers now",
    usual=0,
)
def new_numbers_in_the_same_tensor_are_a_new_input(context: LiveContext) -> None:
    """The same tensor with new numbers, or with a new size, counts as a new input."""
    # The other numbers are in the middle: who remembers a sum or the corners has not seen them.
    first, middle = context.x.clone(), context.case.tokens // 2
    first[:, middle] = make_tokens(context.case, context.contract, "x2")[:, middle]
    # Weights do not grow, and what grew is not contiguous.
    grows = context.contract.has(C.MODULE, C.STRIDED, C.ANY_LENGTH)
    ways = REUSES if grows else REUSES[:2]
    for reuse, grad in itertools.product(ways, ("no_grad", "grad")):
        adapter = build_fresh_module(context)
        answer = adapter.refill(first, context.x, context.mask, reuse, grad)
        context.check_form(answer, context.x)
        context.assert_answer_unchanged(tuple(output.double() for output in answer.outputs))


@history_property(
    C.TOKENS, C.MODULE, hint="is something shared: in the class, in a global, in a default?"
)
def other_instances_do_not_matter(context: LiveContext) -> None:
    """Other modules that exist at the same time, of any size, do not change the output."""
    built = shuffle_steps(context, make_other_modules(context))
    steps = [step for other in built for step in (other, Rebuild())]
    assert_no_effect(context, steps, (CALL_PROBE, TRAINING_PROBE))


@history_property(
    C.DROPOUT,
    after=(earlier_calls_do_not_matter,),
    hint="does an evaluation leave something behind: a mode, a rate, a mask?",
    usual=0,
)
def training_drops_again_after_an_evaluation(context: LiveContext) -> None:
    """After evaluations and other calls, training still drops weights as it did at first."""
    assert_no_effect(context, shuffle_steps(context, make_evaluations(context)), (TRAINING_PROBE,))


@history_property(
    C.MODULE,
    C.INITIALISED,
    after=(the_weights_are_registered_and_trainable, earlier_calls_do_not_matter),
    on=fit_for_moves,
    hint="is something kept, shared or rounded when it is moved or copied?",
    usual=1,
)
def loading_moving_and_copying_leave_no_trace(context: LiveContext) -> None:
    """Loading weights back, other dtypes, and changes to a copy do not change the output."""
    steps = shuffle_steps(context, make_transfers(context))
    assert_no_effect(context, steps, (CALL_PROBE, GRADIENTS_PROBE))


moved_property = functools.partial(history_property, C.MODULE, C.INITIALISED, usual=0)


@moved_property(
    C.PROJECTED,
    after=(the_weights_are_registered_and_trainable, earlier_calls_do_not_matter),
    hint="is something that was computed from the weights kept?",
)
def new_weights_are_used_at_once(context: LiveContext) -> None:
    """After weights are loaded, written in place or replaced, the next call uses them."""
    other = context.other_parameters
    expected = context.compute_expected(parameters=other)
    for grad in ("no_grad", "grad"):
        fresh = build_fresh_module(context)
        fresh.set(other)
        wanted = context.run_module(parameters=other, adapter=fresh)
        for change in (ModuleAdapter.load, ModuleAdapter.set, ModuleAdapter.exchange):
            adapter = build_fresh_module(context)
            context.run_module(options=CallOptions(grad=grad), adapter=adapter)
            change(adapter, other)
            answer = context.run_module(
                parameters=other, options=CallOptions(grad=grad), adapter=adapter
            )
            context.assert_outputs_unchanged(answer, wanted, expected)


@moved_property(
    C.STATED,
    C.PROJECTED,
    after=(new_weights_are_used_at_once,),
    hint="does a list or tuple still hold the first layers?",
)
def new_layers_are_used_at_once(context: LiveContext) -> None:
    """After a layer is replaced, the next call uses the new layer."""
    adapter = build_fresh_module(context)
    context.run_module(adapter=adapter)
    other = context.other_parameters
    expected = context.compute_expected(parameters=other)
    adapter.exchange_layers(other)
    answer = context.run_module(parameters=other, adapter=adapter)
    fresh = build_fresh_module(context)
    wanted = context.run_module(parameters=other, adapter=fresh)
    context.assert_outputs_unchanged(answer, wanted, expected)


@moved_property(
    after=(the_weights_are_registered_and_trainable,),
    hint="optimizers hold on to parameters: only their numbers may change",
)
def loading_and_moving_keep_the_parameters(context: LiveContext) -> None:
    """Loading, moving and copying keep parameters, flags and mode: an optimizer can go on."""
    replaced = build_fresh_module(context).module.list_replaced()
    if replaced:
        names = ", ".join(f"{name}()" for name in replaced)
        raise Violation(ViolationKind.CONSTRUCTION, "the same parameters", f"others after {names}")
    for trainable, training in ((False, True), (True, False)):
        adapter = build_fresh_module(context)
        adapter.module.prepare(trainable=trainable, training=training)
        flags = {n: i.trainable for n, i in adapter.module.describe_tensors().items()}
        modes = adapter.module.list_modes()
        adapter.load(context.parameters)
        copy = adapter.module.copy("deepcopy")
        for what, module in (("loading", adapter.module), ("copying", copy)):
            kept = {n: i.trainable for n, i in module.describe_tensors().items()}
            if (kept, module.list_modes()) != (flags, modes):
                expected = "requires_grad and training as before"
                raise Violation(ViolationKind.VALUE, expected, f"changed by {what}")


@history_property(
    C.MODULE,
    C.TOKENS,
    C.INITIALISED,
    C.WIDTHS,  # fixed sizes are large, and this would cost as much as all other properties
    after=(
        earlier_calls_do_not_matter,
        other_instances_do_not_matter,
        loading_moving_and_copying_leave_no_trace,
    ),
    hint="does the module keep something that shows only in some orders?",
    usual=0,
)
def no_order_of_events_matters(context: LiveContext) -> None:
    """Calls, other modules, training, loading and copies do not change the output, in any order."""
    many = [*make_calls(context), *make_other_modules(context), *make_evaluations(context)]
    some = shuffle_steps(context, many, min(MIXED_STEPS, len(many)))
    mixed = shuffle_steps(context, [*make_transfers(context), *some])
    assert_no_effect(context, mixed, (CALL_PROBE, ONE_TOKEN_PROBE, GRADIENTS_PROBE))
