"""Calling the module has no side effects, and its answer depends on nothing but the input."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import MASK_DTYPES, make_mask, make_tokens
from headcheck.properties.cases.case_transforms import at_least, compose, shorten, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.counting import count
from headcheck.properties.families.contract import FORM, the_weights_are_registered_and_trainable
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import MaskForm
from headcheck.properties.violations.violation import (
    Reason,
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
    ignore_crashes,
)

family_property = PropertyFamily(PropertyGroup.PURITY, FORM)
USUAL_CASES = compose(at_least(tokens=3), with_values(dropout=0.5))
"""The cases of most properties in this file. They share modules, because construction is expensive.
"""
RESULT_SIZES = (
    {"batch": 2, "tokens": 3, "context_length": 5, "d_in": 4, "heads": 2, "head_dim": 3},
    {"batch": 1, "tokens": 80, "d_in": 4, "heads": 1, "head_dim": 3},
    {"batch": 1, "tokens": 1, "d_in": 1, "heads": 1, "head_dim": 1},
)
"""Sizes of results: a module may keep only long results, or only those of a single token."""
LATER_CALLS = (1, 1, 1, 1, 70)
"""how many calls follow before an earlier result is compared again, since a module may alternate
between buffers
"""


@family_property(
    limit=8, hint="is anything random in evaluation, or kept from the last call?", usual=2
)
def evaluation_is_repeatable(context: CaseContext) -> None:
    """In evaluation mode the same input gives exactly the same output."""
    # With another seed, so that an answer that draws random numbers cannot repeat them.
    for first, again, name in zip(
        context.answer, context.run(seed=context.case.seed + 1), context.output_names, strict=True
    ):
        _assert_identical(again, first, name, "the second call gave something else")


module_property = functools.partial(family_property, C.MODULE, limit=1, on=USUAL_CASES)


@module_property(hint="rand(), manual_seed() and a bare F.dropout act in evaluation, too")
def evaluation_leaves_the_random_numbers_alone(context: LiveContext) -> None:
    """In evaluation mode it draws no random numbers and sets no seed."""
    if context.call_module().random_state_moved:
        expected = "the state of torch's random numbers as it was before the call"
        reason = Reason.RANDOM_STATE_MOVED
        raise Violation(ViolationKind.VALUE, expected, "it has changed", reason=reason)


@family_property(
    limit=3,
    on=at_least(tokens=3, head_dim=3),
    hint="operations ending in _, x[...] = ... and x += ... change the input",
    usual=1,
)
def the_input_is_left_unchanged(context: LiveContext) -> None:
    """The input and the mask, of whatever type, are the same after the call as before."""
    # New modules: whether inputs of several sizes may follow each other is not the question.
    x = context.x
    first = x[:1, : shorten(context.contract, context.case, 1).tokens]
    for tokens, mask in ((x[:1], None), (first, None), (x, context.mask)):
        own = build_fresh_module(context)
        options = CallOptions(memory=context.get_memory_layout(tokens))
        _assert_inputs_unchanged(context, tokens, mask, options, own)
    options = CallOptions(training=True, seed=1, grad="grad")
    _assert_inputs_unchanged(context, x, context.mask, options, own)
    for mask in _make_other_masks(context):
        _assert_inputs_unchanged(context, x, mask, CallOptions(), own)


def _make_other_masks(context: CaseContext) -> Iterator[Tensor]:
    """Yield masks that leave some queries no key, which a class may try to repair."""
    if context.contract.has(C.ANY_MASK):
        yield from _make_masks_of_all_kinds(context)
    elif context.contract.has(C.PADDING) and context.case.batch > 1:
        mask = torch.ones(context.case.batch, 1, 1, context.case.tokens, dtype=torch.bool)
        mask[0] = False
        yield mask


def _make_masks_of_all_kinds(context: CaseContext) -> Iterator[Tensor]:
    """Yield a mask of every form and of every type, each with one fully blocked row."""
    forms = [form for form in MaskForm if form is not MaskForm.NONE]
    for form, dtype in itertools.zip_longest(forms, [*MASK_DTYPES.values(), torch.float64]):
        mask = make_mask(replace(context.case, mask_form=form))
        assert mask is not None
        mask[..., :1, :] = 0
        yield mask.to(dtype or torch.bool)


def _assert_inputs_unchanged(
    context: LiveContext,
    x: Tensor,
    mask: Tensor | None,
    options: CallOptions,
    adapter: ModuleAdapter,
) -> None:
    adapter.set(context.parameters)
    inputs = adapter.build_inputs(x, mask)
    returned = context.call_module(x, mask=mask, options=options, adapter=adapter)
    names = context.contract.call if context.contract.is_handed_parameters else ("x", "mask")
    if mask is not None and mask is not context.mask:
        dtype = str(mask.dtype).removeprefix("torch.")
        names = (*names[:-1], f"{names[-1]}, {tuple(mask.shape)} of {dtype}")
    for before, now, name in zip(inputs, returned.inputs_after, names, strict=False):
        now = now if context.adapter.has_batch_axis or before.dim() == now.dim() else now[0]
        is_mask = name.startswith("mask")
        reason = Reason.MASK_WRITTEN_OVER if is_mask else Reason.INPUT_WRITTEN_OVER
        _assert_identical(now.double(), before.double(), name, "it was written over", reason)
    if returned.altered:
        what = ", ".join(returned.altered)
        told = f"{what} as before the call", "changed", "the input"
        requires = returned.altered[-1].endswith("requires_grad")
        why = Reason.INPUT_REQUIRES_GRAD if requires else ""
        raise Violation(ViolationKind.VALUE, *told, reason=why)


@family_property(C.CONFIG, limit=2, hint="read from config; assign to self")
def the_config_is_left_unchanged(context: LiveContext) -> None:
    """The config object is the same after building and calling as before."""
    if context.call_module().config_changed:
        expected = "the config as it was given"
        why = "it was changed", "config"
        raise Violation(ViolationKind.VALUE, expected, *why, reason=Reason.CONFIG_CHANGED)


@module_property(hint="forward must not assign to parameters or buffers")
def parameters_and_buffers_are_left_unchanged(context: LiveContext) -> None:
    """Calling it changes none of its parameters and buffers."""
    context.adapter.set(context.parameters)
    before = dict(context.adapter.module.read(None))
    context.run()
    after = context.adapter.module.read(None)
    for name, tensor in before.items():
        if name not in after or after[name].shape != tensor.shape:
            told = f"shape {tuple(tensor.shape)}", "it changed", name
            raise Violation(ViolationKind.SHAPE, *told, reason=Reason.STATE_WRITTEN_OVER)
        numbers = after[name].double(), tensor.double()
        _assert_identical(*numbers, name, "the call changed it", Reason.STATE_WRITTEN_OVER)


@family_property(
    sizes=RESULT_SIZES,
    hint="return a new tensor, not one that the module keeps and reuses",
    usual=1,
)
def earlier_results_are_left_unchanged(context: LiveContext) -> None:
    """A later call does not change an earlier result."""
    adapter = build_fresh_module(context)
    context.run_module(adapter=adapter)
    other = make_tokens(context.case, context.contract, "x2")
    for times in LATER_CALLS if context.case.tokens == 1 else LATER_CALLS[:-1]:
        options = CallOptions(times=times)
        called = context.call_module(other, options=options, adapter=adapter)
        if called.earlier_result_changed:
            expected = "the first results as they were"
            got, reason = "a later call wrote over them", Reason.RESULT_WRITTEN_OVER
            raise Violation(ViolationKind.VALUE, expected, got, reason=reason)


@family_property(
    sizes=RESULT_SIZES,
    hint="return a new tensor: not the input, nor one that the module keeps",
    usual=1,
)
def results_may_be_written_over(context: LiveContext) -> None:
    """Writing into a result changes no input, no other result and no later answer."""
    adapter = build_fresh_module(context)
    returned = adapter.overwrite_results(context.x, context.mask)
    context.check_form(returned, context.x)
    if returned.altered:
        if "refused" in returned.altered:
            expected = "a result that can be written into where gradients are recorded"
            got, reason = "torch refuses that: it is a view", Reason.RESULT_IS_VIEW
            raise Violation(ViolationKind.VALUE, expected, got, reason=reason)
        is_input = any(name.startswith("input") for name in returned.altered)
        expected = "the input as it was" if is_input else "the other result as it was"
        raise Violation(ViolationKind.VALUE, expected, "writing into the result changed it")
    context.assert_answer_unchanged(tuple(output.double() for output in returned.outputs))


@family_property(
    limit=1, on=USUAL_CASES, hint="undo with a `with` block, which also ends when something raises"
)
def settings_of_torch_are_left_alone(context: LiveContext) -> None:
    """It leaves torch's settings alone: default dtype, gradients on or off, and so on."""
    adapter = build_fresh_module(context)
    wide = torch.cat([context.x, context.x], dim=-1)
    for grad, training in (("no_grad", False), ("grad", False), ("grad", True)):
        options = CallOptions(training=training, seed=1, grad=grad)
        adapter.forward(context.x, context.mask, options)
        if context.contract.has(C.MODULE):
            with ignore_crashes():  # whether it refuses is not the question
                adapter.forward(wide, context.mask, options)
    disturbed = context.harness.subject.list_disturbed()
    if disturbed:
        got = f"{', '.join(disturbed)}: changed by building or calling it"
        expected, reason = "all settings of torch as they were", Reason.SETTINGS_CHANGED
        raise Violation(ViolationKind.VALUE, expected, got, reason=reason)


@module_property(
    C.INITIALISED,
    after=(the_weights_are_registered_and_trainable,),
    hint="do not override what nn.Module has, such as train() and __call__",
)
def it_works_as_a_part_of_another_module(context: LiveContext) -> None:
    """It works like any module inside a larger module, and as a base class."""
    fresh = build_fresh_module(context)
    breaches = fresh.module.list_breaches(fresh.build_inputs(context.x, context.mask))
    if breaches:
        raise Violation(ViolationKind.TYPE, "what every nn.Module does", "; ".join(breaches))
    if context.contract.entry is Entry.CLASS:
        derived = build_fresh_module(context).copy("subclass")
        context.assert_answer_unchanged(context.run_module(adapter=derived))
    nested, alone = build_fresh_module(context).nest(), build_fresh_module(context)
    for options in (CallOptions(), CallOptions(training=True, seed=1), CallOptions()):
        got = context.run_module(options=options, adapter=nested)
        wanted = context.run_module(options=options, adapter=alone)
        context.assert_outputs_unchanged(got, wanted, context.expected)
    nested.module.move("float32", None)
    nested.module.move(context.case.dtype, None)
    nested.current_parameters = None  # the narrower dtype has rounded them
    context.assert_answer_unchanged(context.run_module(adapter=nested))


@module_property(hint="leave self.training to train() and eval()")
def the_training_flag_is_left_alone(context: LiveContext) -> None:
    """Calling it does not switch between training and evaluation."""
    drops = context.contract.has(C.DROPOUT)
    for training in (False, True):
        first = context.call_module(options=CallOptions(training=training, seed=1))
        if first.training_after is not training:
            got = f"it is {first.training_after}"
            expected, reason = f"training={training} after the call", Reason.MODE_CHANGED
            raise Violation(ViolationKind.VALUE, expected, got, reason=reason)
        # The effect of the flag: left in its mode, the module drops the same weights again.
        options = CallOptions(training=None if drops else training, seed=1)
        again = context.call_module(options=options)
        what = f"output of a second call with training={training}"
        _assert_identical(again.outputs[0], first.outputs[0], what, "it changed its mode")


@module_property(
    C.PROJECTED,
    after=(the_weights_are_registered_and_trainable,),
    hint="does state_dict() contain everything that forward reads?",
)
def its_state_dict_carries_everything(context: LiveContext) -> None:
    """Another instance that loads its state_dict gives the same output, and stays independent."""
    for way in ("state_dict", "assigned state_dict"):
        _assert_copy_agrees(context, way)


@module_property(hint="which tensors are its state, and does a copy get all of them?")
def a_deep_copy_gives_the_same_output(context: LiveContext) -> None:
    """A deep copy gives the same output, and training the copy does not change the original."""
    _assert_copy_agrees(context, "deepcopy")
    for training in (True, False):
        adapter = build_fresh_module(context)
        adapter.forward(context.x, context.mask, CallOptions(training=training))
        in_its_mode = CallOptions(training=None, seed=1)
        one, other = (
            context.run_module(options=in_its_mode, adapter=each)
            for each in (adapter.copy("deepcopy"), adapter)
        )
        # A copy lies elsewhere in memory, so its sums may be rounded in another order.
        what = f"output of a copy of a module with training={training}, which keeps its mode"
        context.assert_unchanged(one[0], other[0], context.tolerance, what)


@family_property(
    C.STATED,  # else it may keep its weights with their graph, and is copied before it is called
    C.MODULE,
    after=(a_deep_copy_gives_the_same_output,),
    limit=1,
    on=USUAL_CASES,
    hint="is something of the call kept in self, and not detached?",
)
def it_can_be_copied_after_a_call_with_gradients(context: LiveContext) -> None:
    """A deep copy can be made after a call that records gradients, in training or evaluation."""
    adapter = build_fresh_module(context)
    for training in (True, False):
        adapter.forward(context.x, context.mask, CallOptions(training=training, grad="grad"))
        adapter.copy("deepcopy")


@module_property(
    C.INITIALISED,
    after=(the_weights_are_registered_and_trainable,),
    on=compose(USUAL_CASES, with_values(bias=True)),
    hint="__getstate__ and __reduce__ of nn.Module keep everything",
    usual=0,
)
def a_pickled_module_gives_the_same_output(context: LiveContext) -> None:
    """If it can be pickled, as by torch.save, the loaded module gives the same output."""
    try:
        build_fresh_module(context).copy("pickle")
    except SubmissionFailed as failure:
        if failure.status is Status.CRASHED:
            return  # a function in the module may prevent it: nothing is promised
        raise
    _assert_copy_agrees(context, "pickle")


def _assert_copy_agrees(context: LiveContext, way: str) -> None:
    # A fresh module: what a call leaves behind is not the question here.
    adapter = build_fresh_module(context)
    copy = adapter.copy(way)
    context.assert_answer_unchanged(context.run_module(adapter=copy))
    if not context.contract.has(C.INITIALISED):
        return
    # As if it were trained further: this copy keeps its weights, a later copy has the new ones.
    other = context.other_parameters
    trained = context.run_module(parameters=other, adapter=adapter)[0]
    context.assert_answer_unchanged(context.run_module(adapter=copy))
    second = context.run_module(parameters=other, adapter=adapter.copy(way))[0]
    tolerance = context.compute_expected(parameters=other).tolerances[0]
    context.assert_unchanged(second, trained, tolerance, "output of a copy made after training")


def _describe_change(got: Tensor, before: Tensor) -> str:
    """Describe how much numbers have changed, or which of them became NaN."""
    lost = ~got.isfinite() & before.isfinite()
    if bool(lost.any()):
        return f"of which {int(lost.sum())} became {float(got[lost][0]):g}"
    return f"by up to {float(torch.nan_to_num(got - before).abs().max()):.3g}"


def _assert_identical(
    got: Tensor, before: Tensor, what: str, problem: str, reason: str = ""
) -> None:
    """Raise Violation unless all numbers are the same, NaN included, without any tolerance."""
    if got.shape != before.shape:
        now = f"{problem}: shape {tuple(got.shape)}"
        expected = f"shape {tuple(before.shape)} as before"
        raise Violation(ViolationKind.SHAPE, expected, now, what, reason=reason)
    same = (got == before) | (got.isnan() & before.isnan())
    if not bool(same.all()):
        off = int((~same).sum())
        elements = count(same.numel(), "element")
        got_text = f"{problem}: {off} of {elements}, {_describe_change(got, before)}"
        expected = "exactly the same numbers"
        raise Violation(ViolationKind.VALUE, expected, got_text, what, reason=reason)
