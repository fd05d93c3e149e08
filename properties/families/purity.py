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
from properties.harness.harness import CaseContext
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
def evaluation_is_repeatable(trial: CaseContext) -> None:
    """In evaluation mode the same input gives exactly the same output."""
    # Seeded otherwise: what draws random numbers must not be saved by drawing the same ones.
    how = CallOptions(memory=trial.case.memory.value, seed=trial.case.seed + 1)
    for first, again, name in zip(
        trial.answer, trial.run(how=how), trial.output_names, strict=True
    ):
        _assert_identical(again, first, name, "the second call gave something else")


@family_property(
    C.MODULE,
    limit=1,
    on=USUAL_CASES,
    hint="F.dropout needs training=self.training; nn.Dropout knows by itself",
)
def evaluation_leaves_the_random_numbers_alone(trial: CaseContext) -> None:
    """In evaluation mode it draws no random numbers and sets no seed."""
    if trial.call_module().random_state_moved:
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
def the_input_is_left_unchanged(trial: CaseContext) -> None:
    """The input and the mask, of whatever type, are the same after the call as before."""
    trial.adapter.set(trial.parameters)
    for x, mask in ((trial.x, trial.mask), (trial.x[:1], None), (trial.x[:1, :1], None)):
        _assert_inputs_unchanged(trial, x, mask, CallOptions(memory=trial.get_memory_layout(x)))
    if trial.contract.has(Capability.MODULE):
        _assert_inputs_unchanged(
            trial, trial.x, trial.mask, CallOptions(training=True, seed=1, grad="grad")
        )
    if trial.contract.has(Capability.MASK):
        for mask in _make_masks_of_all_kinds(trial):
            _assert_inputs_unchanged(trial, trial.x, mask, CallOptions())


def _make_masks_of_all_kinds(trial: CaseContext) -> Iterator[Tensor]:
    """A mask of every form, and of every type; in each of them a row that is blocked whole."""
    forms = [form for form in MaskForm if form is not MaskForm.NONE]
    for form, dtype in itertools.zip_longest(forms, [*MASK_DTYPES.values(), torch.float64]):
        mask = make_mask(replace(trial.case, mask_form=form))
        assert mask is not None
        mask[..., :1, :] = 0
        yield mask.to(dtype or torch.bool)


def _assert_inputs_unchanged(
    trial: CaseContext, x: Tensor, mask: Tensor | None, how: CallOptions
) -> None:
    given = trial.adapter.build_inputs(x, mask)
    returned = trial.call_module(x, mask=mask, how=how)
    named = trial.contract.call if trial.contract.entry is Entry.FUNCTION else ("x", "mask")
    for before, now, name in zip(given, returned.inputs_after, named, strict=False):
        now = now if trial.adapter.has_batch_axis or before.dim() == now.dim() else now[0]
        _assert_identical(now.double(), before.double(), name, "it was written over")
    if returned.altered:
        what = ", ".join(returned.altered)
        raise Violation(ViolationKind.VALUE, f"{what} as before the call", "changed", "the input")


@family_property(C.CONFIG, limit=2, hint="read from config; assign to self")
def the_config_is_left_unchanged(trial: CaseContext) -> None:
    """The config object is the same after building and calling as before."""
    if trial.call_module().config_changed:
        raise Violation(
            ViolationKind.VALUE, "the config as it was given", "it was changed", "config"
        )


@family_property(
    C.MODULE, limit=1, on=USUAL_CASES, hint="forward must not assign to parameters or buffers"
)
def parameters_and_buffers_are_left_unchanged(trial: CaseContext) -> None:
    """Calling it changes none of its parameters and buffers."""
    trial.adapter.set(trial.parameters)
    before = _read_state(trial.adapter.module)
    trial.run()
    after = _read_state(trial.adapter.module)
    for name, tensor in before.items():
        if name not in after or after[name].shape != tensor.shape:
            raise Violation(ViolationKind.SHAPE, f"shape {tuple(tensor.shape)}", "it changed", name)
        _assert_identical(after[name].double(), tensor.double(), name, "the call changed it")


@family_property(
    limit=1, on=USUAL_CASES, hint="return a new tensor, not one that the module keeps and reuses"
)
def earlier_results_are_left_unchanged(trial: CaseContext) -> None:
    """A result handed out earlier is not changed by a later call."""
    instance = construct(trial.harness.subject, trial.contract, trial.case)
    trial.run(instance=instance)
    other = make_tokens(trial.case, trial.contract, "x2")
    if trial.call_module(other, how=CallOptions(), instance=instance).earlier_result_changed:
        raise Violation(
            ViolationKind.VALUE, "the first result as it was", "the second call wrote over it"
        )


@family_property(
    C.MODULE, limit=1, on=USUAL_CASES, hint="leave self.training to train() and eval()"
)
def the_training_flag_is_left_alone(trial: CaseContext) -> None:
    """Calling it does not switch between training and evaluation."""
    drops = trial.contract.has(Capability.DROPOUT)
    for training in (False, True):
        first = trial.call_module(how=CallOptions(training=training, seed=1))
        if first.training_after is not training:
            got = f"it is {first.training_after}"
            raise Violation(ViolationKind.VALUE, f"training={training} after the call", got)
        # What the flag does is seen: left in its mode, it drops the same weights, or none, again.
        again = trial.call_module(how=CallOptions(training=None if drops else training, seed=1))
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
def its_state_dict_carries_everything(trial: CaseContext) -> None:
    """Another instance that loads its state_dict gives the same output, and is another one."""
    _assert_copy_agrees(trial, "state_dict")


@family_property(
    C.MODULE, limit=1, on=USUAL_CASES, hint="is something outside the module part of its state?"
)
def a_deep_copy_gives_the_same_output(trial: CaseContext) -> None:
    """A deep copy of it gives the same output, and is trained without changing the original."""
    _assert_copy_agrees(trial, "deepcopy")


def _assert_copy_agrees(trial: CaseContext, way: str) -> None:
    # A fresh one: results that a module keeps for show cannot be copied with their gradients.
    instance = construct(trial.harness.subject, trial.contract, trial.case)
    instance.set(trial.parameters)
    copy = instance.copy(way)
    trial.assert_answer_unchanged(trial.run(instance=copy))
    if not trial.contract.has(Capability.INITIALISED):
        return
    # As if it were trained further: the copy keeps its weights, and another copy gets the new ones.
    other = make_parameters(replace(trial.case, seed=trial.case.seed + 1), trial.contract)
    wanted = trial.run(parameters=other, instance=instance)[0]
    trial.assert_answer_unchanged(trial.run(instance=copy))
    second = trial.run(parameters=other, instance=instance.copy(way))[0]
    allowed = trial.compute_expected(parameters=other).tolerances[0]
    trial.assert_unchanged(second, wanted, allowed, "output of a copy made after training")


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
