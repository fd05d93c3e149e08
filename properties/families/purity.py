"""Calling the module has no side effects, and its answer depends on nothing but the input."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from properties.case import MaskForm
from properties.cases.case_tensors import MASK_DTYPES, make_mask, make_parameters, make_tokens
from properties.cases.case_transforms import at_least, compose, with_values
from properties.contract import Capability, Entry
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.harness.case_context import CaseContext
from properties.harness.harness import LiveContext
from properties.harness.steps import build_fresh_module
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions
from properties.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.PURITY, FORM)
USUAL_CASES = compose(at_least(tokens=3), with_values(dropout=0.5))
"""Most of these are checked on the same cases, to share modules: constructing costs most."""
C = Capability


@family_property(
    limit=8, hint="is there dropout or other randomness that eval() does not switch off?"
)
def evaluation_is_repeatable(context: CaseContext) -> None:
    """In evaluation mode the same input gives exactly the same output."""
    # With another seed, so that an answer that draws random numbers cannot repeat them.
    for first, again, name in zip(
        context.answer, context.run(seed=context.case.seed + 1), context.output_names, strict=True
    ):
        _assert_identical(again, first, name, "the second call gave something else")


@family_property(
    C.MODULE,
    limit=1,
    on=USUAL_CASES,
    hint="F.dropout needs training=self.training; nn.Dropout knows by itself",
)
def evaluation_leaves_the_random_numbers_alone(context: LiveContext) -> None:
    """In evaluation mode it draws no random numbers and sets no seed."""
    if context.call_module().random_state_moved:
        expected = "torch's random numbers go on as if nothing had happened"
        raise Violation(ViolationKind.VALUE, expected, "they moved")


@family_property(
    limit=3,
    on=at_least(tokens=3, head_dim=3),
    hint="operations ending in _ and x[...] = ... write into their input; work on a copy",
)
def the_input_is_left_unchanged(context: LiveContext) -> None:
    """The input and the mask, of whatever type, are the same after the call as before."""
    context.adapter.set(context.parameters)
    for x, mask in ((context.x, context.mask), (context.x[:1], None), (context.x[:1, :1], None)):
        _assert_inputs_unchanged(context, x, mask, CallOptions(memory=context.get_memory_layout(x)))
    if context.contract.has(Capability.MODULE):
        options = CallOptions(training=True, seed=1, grad="grad")
        _assert_inputs_unchanged(context, context.x, context.mask, options)
    if context.contract.has(Capability.MASK):
        for mask in _make_masks_of_all_kinds(context):
            _assert_inputs_unchanged(context, context.x, mask, CallOptions())


def _make_masks_of_all_kinds(context: CaseContext) -> Iterator[Tensor]:
    """Yield a mask of every form and of every type, each with one row blocked whole."""
    forms = [form for form in MaskForm if form is not MaskForm.NONE]
    for form, dtype in itertools.zip_longest(forms, [*MASK_DTYPES.values(), torch.float64]):
        mask = make_mask(replace(context.case, mask_form=form))
        assert mask is not None
        mask[..., :1, :] = 0
        yield mask.to(dtype or torch.bool)


def _assert_inputs_unchanged(
    context: LiveContext, x: Tensor, mask: Tensor | None, options: CallOptions
) -> None:
    inputs = context.adapter.build_inputs(x, mask)
    returned = context.call_module(x, mask=mask, options=options)
    names = context.contract.call if context.contract.entry is Entry.FUNCTION else ("x", "mask")
    for before, now, name in zip(inputs, returned.inputs_after, names, strict=False):
        now = now if context.adapter.has_batch_axis or before.dim() == now.dim() else now[0]
        _assert_identical(now.double(), before.double(), name, "it was written over")
    if returned.altered:
        what = ", ".join(returned.altered)
        raise Violation(ViolationKind.VALUE, f"{what} as before the call", "changed", "the input")


@family_property(C.CONFIG, limit=2, hint="read from config; assign to self")
def the_config_is_left_unchanged(context: LiveContext) -> None:
    """The config object is the same after building and calling as before."""
    if context.call_module().config_changed:
        expected = "the config as it was given"
        raise Violation(ViolationKind.VALUE, expected, "it was changed", "config")


@family_property(
    C.MODULE, limit=1, on=USUAL_CASES, hint="forward must not assign to parameters or buffers"
)
def parameters_and_buffers_are_left_unchanged(context: LiveContext) -> None:
    """Calling it changes none of its parameters and buffers."""
    context.adapter.set(context.parameters)
    before = dict(context.adapter.module.read(None))
    context.run()
    after = context.adapter.module.read(None)
    for name, tensor in before.items():
        if name not in after or after[name].shape != tensor.shape:
            raise Violation(ViolationKind.SHAPE, f"shape {tuple(tensor.shape)}", "it changed", name)
        _assert_identical(after[name].double(), tensor.double(), name, "the call changed it")


@family_property(
    limit=1, on=USUAL_CASES, hint="return a new tensor, not one that the module keeps and reuses"
)
def earlier_results_are_left_unchanged(context: LiveContext) -> None:
    """A result handed out earlier is not changed by a later call."""
    adapter = build_fresh_module(context)
    context.run_module(adapter=adapter)
    other = make_tokens(context.case, context.contract, "x2")
    if context.call_module(other, options=CallOptions(), adapter=adapter).earlier_result_changed:
        expected = "the first result as it was"
        raise Violation(ViolationKind.VALUE, expected, "the second call wrote over it")


@family_property(
    C.MODULE, limit=1, on=USUAL_CASES, hint="leave self.training to train() and eval()"
)
def the_training_flag_is_left_alone(context: LiveContext) -> None:
    """Calling it does not switch between training and evaluation."""
    drops = context.contract.has(Capability.DROPOUT)
    for training in (False, True):
        first = context.call_module(options=CallOptions(training=training, seed=1))
        if first.training_after is not training:
            got = f"it is {first.training_after}"
            raise Violation(ViolationKind.VALUE, f"training={training} after the call", got)
        # The effect of the flag: left in its mode, the module drops the same weights again.
        options = CallOptions(training=None if drops else training, seed=1)
        again = context.call_module(options=options)
        what = f"output of a second call with training={training}"
        _assert_identical(again.outputs[0], first.outputs[0], what, "it changed its mode")


@family_property(
    C.MODULE,
    C.PROJECTED,
    after=(the_weights_are_registered_and_trainable,),
    limit=1,
    on=USUAL_CASES,
    hint="what forward needs must be a parameter or a buffer",
)
def its_state_dict_carries_everything(context: LiveContext) -> None:
    """Another instance that loads its state_dict gives the same output, and is another one."""
    _assert_copy_agrees(context, "state_dict")


@family_property(
    C.MODULE, limit=1, on=USUAL_CASES, hint="is something outside the module part of its state?"
)
def a_deep_copy_gives_the_same_output(context: LiveContext) -> None:
    """A deep copy of it gives the same output, and is trained without changing the original."""
    _assert_copy_agrees(context, "deepcopy")


def _assert_copy_agrees(context: LiveContext, way: str) -> None:
    # A fresh module, because results that a module keeps cannot be copied with their gradients.
    adapter = build_fresh_module(context)
    copy = adapter.copy(way)
    context.assert_answer_unchanged(context.run_module(adapter=copy))
    if not context.contract.has(Capability.INITIALISED):
        return
    # As if it were trained further: this copy keeps its weights, a later copy has the new ones.
    other = make_parameters(replace(context.case, seed=context.case.seed + 1), context.contract)
    trained = context.run_module(parameters=other, adapter=adapter)[0]
    context.assert_answer_unchanged(context.run_module(adapter=copy))
    second = context.run_module(parameters=other, adapter=adapter.copy(way))[0]
    tolerance = context.compute_expected(parameters=other).tolerances[0]
    context.assert_unchanged(second, trained, tolerance, "output of a copy made after training")


def _assert_identical(got: Tensor, before: Tensor, what: str, problem: str) -> None:
    """Raise Violation unless all numbers are the same, NaN included, without any tolerance."""
    if got.shape != before.shape:
        now = f"{problem}: shape {tuple(got.shape)}"
        raise Violation(ViolationKind.SHAPE, f"shape {tuple(before.shape)} as before", now, what)
    same = (got == before) | (got.isnan() & before.isnan())
    if not bool(same.all()):
        off = int((~same).sum())
        difference = float(torch.nan_to_num(got - before).abs().max())
        got_text = f"{problem}: {off} of {same.numel()} elements, by up to {difference:.3g}"
        raise Violation(ViolationKind.VALUE, "exactly the same numbers", got_text, what)
