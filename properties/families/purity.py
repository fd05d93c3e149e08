"""Calling the module has no effect but its answer, and nothing but its input decides the answer."""

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
from properties.harness.module_adapter import construct
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions, Module
from properties.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.PURITY, FORM)
USUAL_CASES = compose(at_least(tokens=3), with_values(dropout=0.5))
"""What most of these are tried on, so that they share modules: constructing costs most."""
C = Capability


@family_property(
    limit=8, hint="is there dropout or other randomness that eval() does not switch off?"
)
def evaluation_is_repeatable(context: CaseContext) -> None:
    """In evaluation mode the same input gives exactly the same output."""
    # Seeded otherwise: what draws random numbers must not be saved by drawing the same ones.
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
        raise Violation(
            ViolationKind.VALUE,
            "torch's random numbers go on as if nothing had happened",
            "they moved",
        )


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
        _assert_inputs_unchanged(
            context, context.x, context.mask, CallOptions(training=True, seed=1, grad="grad")
        )
    if context.contract.has(Capability.MASK):
        for mask in _make_masks_of_all_kinds(context):
            _assert_inputs_unchanged(context, context.x, mask, CallOptions())


def _make_masks_of_all_kinds(context: CaseContext) -> Iterator[Tensor]:
    """A mask of every form, and of every type; in each of them a row that is blocked whole."""
    forms = [form for form in MaskForm if form is not MaskForm.NONE]
    for form, dtype in itertools.zip_longest(forms, [*MASK_DTYPES.values(), torch.float64]):
        mask = make_mask(replace(context.case, mask_form=form))
        assert mask is not None
        mask[..., :1, :] = 0
        yield mask.to(dtype or torch.bool)


def _assert_inputs_unchanged(
    context: LiveContext, x: Tensor, mask: Tensor | None, options: CallOptions
) -> None:
    given = context.adapter.build_inputs(x, mask)
    returned = context.call_module(x, mask=mask, options=options)
    named = context.contract.call if context.contract.entry is Entry.FUNCTION else ("x", "mask")
    for before, now, name in zip(given, returned.inputs_after, named, strict=False):
        now = now if context.adapter.has_batch_axis or before.dim() == now.dim() else now[0]
        _assert_identical(now.double(), before.double(), name, "it was written over")
    if returned.altered:
        what = ", ".join(returned.altered)
        raise Violation(ViolationKind.VALUE, f"{what} as before the call", "changed", "the input")


@family_property(C.CONFIG, limit=2, hint="read from config; assign to self")
def the_config_is_left_unchanged(context: LiveContext) -> None:
    """The config object is the same after building and calling as before."""
    if context.call_module().config_changed:
        raise Violation(
            ViolationKind.VALUE, "the config as it was given", "it was changed", "config"
        )


@family_property(
    C.MODULE, limit=1, on=USUAL_CASES, hint="forward must not assign to parameters or buffers"
)
def parameters_and_buffers_are_left_unchanged(context: LiveContext) -> None:
    """Calling it changes none of its parameters and buffers."""
    context.adapter.set(context.parameters)
    before = _read_state(context.adapter.module)
    context.run()
    after = _read_state(context.adapter.module)
    for name, tensor in before.items():
        if name not in after or after[name].shape != tensor.shape:
            raise Violation(ViolationKind.SHAPE, f"shape {tuple(tensor.shape)}", "it changed", name)
        _assert_identical(after[name].double(), tensor.double(), name, "the call changed it")


@family_property(
    limit=1, on=USUAL_CASES, hint="return a new tensor, not one that the module keeps and reuses"
)
def earlier_results_are_left_unchanged(context: LiveContext) -> None:
    """A result handed out earlier is not changed by a later call."""
    adapter = construct(context.harness.subject, context.contract, context.case)
    context.run_module(adapter=adapter)
    other = make_tokens(context.case, context.contract, "x2")
    if context.call_module(other, options=CallOptions(), adapter=adapter).earlier_result_changed:
        raise Violation(
            ViolationKind.VALUE, "the first result as it was", "the second call wrote over it"
        )


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
        # What the flag does is seen: left in its mode, it drops the same weights, or none, again.
        again = context.call_module(
            options=CallOptions(training=None if drops else training, seed=1)
        )
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
    # A fresh one: results that a module keeps for show cannot be copied with their gradients.
    adapter = construct(context.harness.subject, context.contract, context.case)
    adapter.set(context.parameters)
    copy = adapter.copy(way)
    context.assert_answer_unchanged(context.run_module(adapter=copy))
    if not context.contract.has(Capability.INITIALISED):
        return
    # As if it were trained further: the copy keeps its weights, and another copy gets the new ones.
    other = make_parameters(replace(context.case, seed=context.case.seed + 1), context.contract)
    wanted = context.run_module(parameters=other, adapter=adapter)[0]
    context.assert_answer_unchanged(context.run_module(adapter=copy))
    second = context.run_module(parameters=other, adapter=adapter.copy(way))[0]
    allowed = context.compute_expected(parameters=other).tolerances[0]
    context.assert_unchanged(second, wanted, allowed, "output of a copy made after training")


def _read_state(module: Module) -> dict[str, Tensor]:
    return dict(module.read(None))


def _assert_identical(got: Tensor, wanted: Tensor, what: str, problem: str) -> None:
    """Bit for bit, NaN included: nothing was computed in between."""
    if got.shape != wanted.shape:
        now = f"{problem}: shape {tuple(got.shape)}"
        raise Violation(ViolationKind.SHAPE, f"shape {tuple(wanted.shape)} as before", now, what)
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    if not bool(same.all()):
        off = int((~same).sum())
        difference = float(torch.nan_to_num(got - wanted).abs().max())
        got_text = f"{problem}: {off} of {same.numel()} elements, by up to {difference:.3g}"
        raise Violation(ViolationKind.VALUE, "exactly the same numbers", got_text, what)


ALL = (
    evaluation_is_repeatable,
    evaluation_leaves_the_random_numbers_alone,
    the_input_is_left_unchanged,
    the_config_is_left_unchanged,
    parameters_and_buffers_are_left_unchanged,
    earlier_results_are_left_unchanged,
    the_training_flag_is_left_alone,
    its_state_dict_carries_everything,
    a_deep_copy_gives_the_same_output,
)
