"""Training with dropout: outputs, gradients that add up and freeze, and steps of descent.

A module is trained for a few steps as a user would train it, without ever reseeding. There are
training calls of several lengths, evaluations between them, gradients that add up over two calls,
frozen weights, an input that requires no gradient, and steps of gradient descent. Every answer is
compared with the equation, in which each weight is multiplied by the factor from dropout.
"""

import functools
from collections.abc import Collection, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.bounds.gradients import ExactGradients, Loss, compute_gradients
from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_tensors import draw_normal, narrow_mask
from headcheck.properties.cases.case_transforms import compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM, the_weights_are_registered_and_trainable
from headcheck.properties.families.dropout import dropout_acts_on_the_attention_weights
from headcheck.properties.families.gradients import (
    CUT_HINT,
    make_cut,
    the_gradients_of_the_weights_are_right,
)
from headcheck.properties.families.history import (
    new_weights_are_used_at_once,
    training_drops_again_after_an_evaluation,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.steps import build_fresh_module, fit_for_histories
from headcheck.properties.harness.training_run import (
    COPY_STEPS,
    RATE,
    TrainingCall,
    TrainingRun,
    compute_output,
    make_input,
    run_training,
    train,
)
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions, Pass
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MemoryLayout
from headcheck.properties.violations.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
TRAINING_HINT = "calls and gradients also follow the equation in training"
LEARNING = (
    it_equals_the_equation,
    the_weights_are_registered_and_trainable,
    the_gradients_of_the_weights_are_right,
    training_drops_again_after_an_evaluation,
    dropout_acts_on_the_attention_weights,
)
TRAINED = (C.TOKENS, C.PROJECTED, C.MODULE, C.INITIALISED, C.WIDTHS)


MAX_TOKENS = 24
"""the most tokens for which outputs still show which weights dropout kept"""
SIZES = (
    {"batch": 2, "tokens": 4, "context_length": 6, "d_in": 6, "heads": 3, "head_dim": 5},
    {"batch": 1, "tokens": 24, "context_length": 24, "d_in": 26, "heads": 1, "head_dim": 25},
)
"""The sizes of training runs. A head is as wide as the sequence is long, so that outputs show the
weights; the second sizes are longer."""


def keep_for_training(case: Case) -> Case:
    """Return a small case for training whose attention weights can be recovered from its output."""
    tokens = min(max(2, case.tokens), MAX_TOKENS)
    width = min(max(case.head_dim, tokens + 1), MAX_TOKENS + 1)
    case = replace(case, tokens=tokens, context_length=max(case.context_length, tokens))
    case = replace(case, batch=min(case.batch, 2), heads=min(case.heads, 3), head_dim=width)
    case = replace(case, d_in=min(max(case.d_in, tokens + 1), MAX_TOKENS + 2))
    case = replace(case, sharpness=2, dropout=0.25, dtype="float64")
    case = replace(case, content=InputContent.NORMAL, memory=MemoryLayout.CONTIGUOUS)
    return replace(case, mask_form=MaskForm.QUERY_KEY)


def assert_outputs_right(context: LiveContext, run: TrainingRun, *, training: bool) -> None:
    """Raise Violation unless the outputs in training, or in evaluation, are right."""
    for number, call in enumerate(run):
        if call.known and call.step.training is training:
            exact, limit = compute_output(context, call)
            what = f"output {_describe_call(run, number)}"
            context.assert_close(call.result.output.double(), exact, limit, what)


def _describe_call(run: TrainingRun, number: int) -> str:
    mode = "in training" if run[number].step.training else "in evaluation"
    return f"{mode}, call {number + 1} of {len(run)}"


def assert_gradients_right(
    context: LiveContext, run: TrainingRun, numbers: Collection[int]
) -> None:
    """Raise Violation unless the gradients after these calls are the sums over the calls so far."""
    total: dict[str, tuple[Tensor, Tolerance]] = {}
    known = True
    for number, call in enumerate(run):
        for earlier in call.step.backward:
            exact = run[earlier].exact_gradients
            known &= run[earlier].known
            if number in numbers and run[earlier].known and call.step.backward.count(earlier) == 1:
                _assert_input_gradient(context, run, number, earlier, exact)
            if run[earlier].step.weights_learn:
                total = {n: _add(total.get(n), exact, n) for n in exact.values if n != "x"}
        if number in numbers and known and call.step.backward:
            _assert_weight_gradients(context, call, _describe_call(run, number), total)
        if call.step.clear:
            total, known = {}, True


def _add(
    before: tuple[Tensor, Tolerance] | None, exact: ExactGradients, name: str
) -> tuple[Tensor, Tolerance]:
    value, tolerance = exact.values[name], exact.compute_tolerance(name)
    return (value, tolerance) if before is None else (before[0] + value, before[1] + tolerance)


def _assert_input_gradient(
    context: LiveContext, run: TrainingRun, number: int, earlier: int, exact: ExactGradients
) -> None:
    got = run[number].result.input_gradients[earlier]
    learns = run[earlier].step.input_learns
    where = f"x {_describe_call(run, earlier)}"
    if got is None and learns and bool(exact.values["x"].any()):
        raise Violation(ViolationKind.VALUE, "a gradient", "none reaches it", where)
    if got is not None and learns:
        limit = exact.compute_tolerance("x")
        context.assert_close(got.double(), exact.values["x"], limit, f"gradient of {where}")


def _assert_weight_gradients(
    context: LiveContext,
    call: TrainingCall,
    when: str,
    total: Mapping[str, tuple[Tensor, Tolerance]],
) -> None:
    for name, weight in call.parameters.items():
        got = call.result.gradients.get(name)
        zero = torch.zeros_like(weight)
        exact, tolerance = total.get(name, (zero, Tolerance(zero, zero)))
        where = f"{context.contract.describe_parameter(name)} {when}"
        if got is None and bool(exact.any()):
            raise make_cut(where)
        if got is not None:
            context.assert_close(got.double(), exact, tolerance, f"gradient of {where}")


training_property = functools.partial(
    family_property, C.STEADY, *TRAINED, on=keep_for_training, sizes=SIZES, dtypes=("float64",)
)


@training_property(
    C.DROPOUT,
    after=(
        it_equals_the_equation,
        training_drops_again_after_an_evaluation,
        dropout_acts_on_the_attention_weights,  # else what was kept cannot be told
    ),
    hint=TRAINING_HINT,
    usual=1,
)
def training_gives_the_equation_of_what_it_kept(context: LiveContext) -> None:
    """In training, every call gives the output of the equation with the kept weights."""
    assert_outputs_right(context, context.compute_once(run_training), training=True)


@training_property(
    after=LEARNING,
    hint=CUT_HINT,
    usual=1,
)
def the_gradients_in_training_are_right(context: LiveContext) -> None:
    """In training, the gradients are those of the equation with the weights that dropout kept."""
    assert_gradients_right(context, context.compute_once(run_training), {1})


@training_property(
    after=(the_gradients_in_training_are_right,),
    hint="does a call clear gradients, or write over what another keeps?",
    usual=1,
)
def gradients_add_up_over_calls(context: LiveContext) -> None:
    """The gradients of several calls add up until they are cleared, in any order of the calls."""
    assert_gradients_right(context, context.compute_once(run_training), {2, 3, 6, 14})


@training_property(
    after=(the_gradients_in_training_are_right,),
    hint="does it matter in the code which tensors require a gradient?",
    usual=0,
)
def gradients_go_only_where_they_are_required(context: LiveContext) -> None:
    """Frozen weights and plain inputs get no gradient, and all others do."""
    assert_gradients_right(context, context.compute_once(run_training), {7, 8, 11, 13})


@training_property(
    after=LEARNING,
    hint="only a step changes weights, and only by their gradients",
    usual=1,
)
def a_training_step_moves_every_weight(context: LiveContext) -> None:
    """A step of gradient descent moves every weight by its gradient."""
    for call in context.compute_once(run_training):
        moved = call.result.parameters
        if moved is None:
            continue
        for name, before in call.parameters.items():
            gradient = call.result.gradients.get(name)
            after = before if gradient is None else before - RATE * gradient.double()
            limit = 4 * PRECISIONS[context.case.dtype].u * (before.abs() + after.abs())
            where = f"{context.contract.describe_parameter(name)} after the step"
            context.assert_close(getattr(moved, name), after, Tolerance(limit, limit), where)


@training_property(
    after=(a_training_step_moves_every_weight,),
    hint="is something that was computed from the weights kept?",
    usual=1,
)
def what_was_trained_is_used(context: LiveContext) -> None:
    """After training steps, outputs and gradients follow from the trained weights."""
    run = context.compute_once(run_training)
    assert_outputs_right(context, run, training=False)
    assert_gradients_right(context, run, {10, 12})


@training_property(
    after=(what_was_trained_is_used,),
    hint="does something in the copy still belong to the original?",
    usual=0,
)
def a_copy_is_trained_by_itself(context: LiveContext) -> None:
    """A copy can be trained like the original, and the original does not change."""
    for way in ("deepcopy", "state_dict"):
        original = build_fresh_module(context)
        run = train(context, original.copy(way), COPY_STEPS)
        assert_outputs_right(context, run, training=False)
        assert_gradients_right(context, run, {0})
        answer = original.forward(context.x, context.mask, CallOptions())
        context.check_form(answer, context.x)
        context.assert_answer_unchanged(tuple(output.double() for output in answer.outputs))


@training_property(
    C.WEIGHTS,
    after=(the_gradients_in_training_are_right,),
    on=compose(keep_for_training, with_values(dropout=0.0)),  # returned before dropout, or after
    sizes=SIZES[:1],
    hint=CUT_HINT,
)
def the_returned_weights_are_trained_through(context: LiveContext) -> None:
    """In training, a loss on the returned weights has gradients, too."""
    given = make_input(context, context.case)
    weights = context.expected.outputs[1]
    given = replace(given, cotangent=draw_normal(context.case, "x2", *weights.shape))
    once = (Pass(inputs=0, output=1, backward=(0,)),)
    adapter = build_fresh_module(context)
    [result] = adapter.run_series([(given.x, given.mask)], [given.cotangent], once)
    visible = context.may_attend(given.x.shape[-2], given.mask)
    loss = Loss(given.cotangent, output=1)
    exact = compute_gradients(
        context.contract, context.case, given.x, context.parameters, visible, loss
    )
    present = dict(context.parameters.items())
    for name in (name for name in ("W_q", "W_k", "b_q") if name in present):
        got, where = result.gradients.get(name), context.contract.describe_parameter(name)
        if got is None:
            raise make_cut(where)
        limit = exact.compute_tolerance(name)
        context.assert_close(got.double(), exact.values[name], limit, f"gradient of {where}")


@family_property(
    C.STEADY,
    *TRAINED,
    after=(
        it_equals_the_equation,
        the_weights_are_registered_and_trainable,
        new_weights_are_used_at_once,
    ),
    limit=1,
    on=compose(fit_for_histories, with_values(bias=False)),
    dtypes=("float64",),
    hint="is something that was computed from several weights kept?",
    usual=0,
)
def a_weight_written_alone_is_used_at_once(context: LiveContext) -> None:
    """After a single weight is written in place, the next call uses it."""
    other = context.other_parameters
    adapter, mixed = build_fresh_module(context), context.parameters
    prefix = context.x[:, :-1], narrow_mask(context.mask)
    if not context.contract.has(C.ANY_LENGTH):
        prefix = context.x, context.mask
    context.run_module(options=CallOptions(), adapter=adapter)
    in_its_mode = CallOptions(training=None)  # so that train() and eval() forget nothing
    for name, values in other.items():
        context.run_module(prefix[0], mixed, prefix[1], in_its_mode, adapter)
        mixed = replace(mixed, **{name: values})
        got = context.run_module(parameters=mixed, options=in_its_mode, adapter=adapter)
        context.assert_matches_oracle(got, context.compute_expected(parameters=mixed))
