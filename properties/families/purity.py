"""Calling the module has no effect but its answer, and nothing but its input decides the answer."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from properties.case import MaskForm
from properties.cases.case_tensors import MASK_DTYPES, mask_of, parameters_of, tokens_of
from properties.cases.case_transforms import at_least, both, with_values
from properties.contract import Entry, Trait
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.harness.harness import Trial
from properties.harness.module_adapter import construct
from properties.property import Claims, Group
from properties.subject import How, Module
from properties.violation import Kind, Violation

claims = Claims(Group.PURITY, FORM)
USUAL = both(at_least(tokens=3), with_values(dropout=0.5))
"""What most of these are tried on, so that they share modules: constructing costs most."""
T = Trait


@claims(limit=8, hint="is there dropout or other randomness that eval() does not switch off?")
def evaluation_is_repeatable(trial: Trial) -> None:
    """In evaluation mode the same input gives exactly the same output."""
    # Seeded otherwise: what draws random numbers must not be saved by drawing the same ones.
    how = How(memory=trial.case.memory.value, seed=trial.case.seed + 1)
    for first, again, name in zip(trial.answer, trial.run(how=how), trial.names, strict=True):
        _identical(again, first, name, "the second call gave something else")


@claims(
    T.MODULE,
    limit=1,
    on=USUAL,
    hint="F.dropout needs training=self.training; nn.Dropout knows by itself",
)
def evaluation_leaves_the_random_numbers_alone(trial: Trial) -> None:
    """In evaluation mode it draws no random numbers and sets no seed."""
    if trial.returned().random_state_moved:
        raise Violation(
            Kind.VALUE, "torch's random numbers go on as if nothing had happened", "they moved"
        )


@claims(
    limit=3,
    on=at_least(tokens=3, head_dim=3),
    hint="operations ending in _ and x[...] = ... write into their input; work on a copy",
)
def the_input_is_left_unchanged(trial: Trial) -> None:
    """The input and the mask, of whatever type, are the same after the call as before."""
    trial.instance.set(trial.parameters)
    for x, mask in ((trial.x, trial.mask), (trial.x[:1], None), (trial.x[:1, :1], None)):
        _inputs_stay(trial, x, mask, How(memory=trial.memory(x)))
    if trial.contract.has(Trait.MODULE):
        _inputs_stay(trial, trial.x, trial.mask, How(training=True, seed=1, grad="grad"))
    if trial.contract.has(Trait.MASK):
        for mask in _masks_of_all_kinds(trial):
            _inputs_stay(trial, trial.x, mask, How())


def _masks_of_all_kinds(trial: Trial) -> Iterator[Tensor]:
    """A mask of every form, and of every type; in each of them a row that is blocked whole."""
    forms = [form for form in MaskForm if form is not MaskForm.NONE]
    for form, dtype in itertools.zip_longest(forms, [*MASK_DTYPES.values(), torch.float64]):
        mask = mask_of(replace(trial.case, mask_form=form))
        assert mask is not None
        mask[..., :1, :] = 0
        yield mask.to(dtype or torch.bool)


def _inputs_stay(trial: Trial, x: Tensor, mask: Tensor | None, how: How) -> None:
    given = trial.instance.inputs(x, mask)
    returned = trial.returned(x, mask=mask, how=how)
    named = trial.contract.call if trial.contract.entry is Entry.FUNCTION else ("x", "mask")
    for before, now, name in zip(given, returned.inputs_after, named, strict=False):
        now = now if trial.instance.batched or before.dim() == now.dim() else now[0]
        _identical(now.double(), before.double(), name, "it was written over")
    if returned.altered:
        what = ", ".join(returned.altered)
        raise Violation(Kind.VALUE, f"{what} as before the call", "changed", "the input")


@claims(T.CONFIG, limit=2, hint="read from config; assign to self")
def the_config_is_left_unchanged(trial: Trial) -> None:
    """The config object is the same after building and calling as before."""
    if trial.returned().config_changed:
        raise Violation(Kind.VALUE, "the config as it was given", "it was changed", "config")


@claims(T.MODULE, limit=1, on=USUAL, hint="forward must not assign to parameters or buffers")
def parameters_and_buffers_are_left_unchanged(trial: Trial) -> None:
    """Calling it changes none of its parameters and buffers."""
    trial.instance.set(trial.parameters)
    before = _state(trial.instance.module)
    trial.run()
    after = _state(trial.instance.module)
    for name, tensor in before.items():
        if name not in after or after[name].shape != tensor.shape:
            raise Violation(Kind.SHAPE, f"shape {tuple(tensor.shape)}", "it changed", name)
        _identical(after[name].double(), tensor.double(), name, "the call changed it")


@claims(limit=1, on=USUAL, hint="return a new tensor, not one that the module keeps and reuses")
def earlier_results_are_left_unchanged(trial: Trial) -> None:
    """A result handed out earlier is not changed by a later call."""
    instance = construct(trial.bench.subject, trial.contract, trial.case)
    trial.run(instance=instance)
    other = tokens_of(trial.case, trial.contract, "x2")
    if trial.returned(other, how=How(), instance=instance).earlier_result_changed:
        raise Violation(Kind.VALUE, "the first result as it was", "the second call wrote over it")


@claims(T.MODULE, limit=1, on=USUAL, hint="leave self.training to train() and eval()")
def the_training_flag_is_left_alone(trial: Trial) -> None:
    """Calling it does not switch between training and evaluation."""
    drops = trial.contract.has(Trait.DROPOUT)
    for training in (False, True):
        first = trial.returned(how=How(training=training, seed=1))
        if first.training_after is not training:
            got = f"it is {first.training_after}"
            raise Violation(Kind.VALUE, f"training={training} after the call", got)
        # What the flag does is seen: left in its mode, it drops the same weights, or none, again.
        again = trial.returned(how=How(training=None if drops else training, seed=1))
        what = f"output of a second call with training={training}"
        _identical(again.outputs[0], first.outputs[0], what, "it changed its mode")


@claims(
    T.MODULE,
    T.PROJECTED,
    after=(the_weights_are_registered_and_trainable,),
    limit=1,
    on=USUAL,
    hint="what forward needs must be a parameter or a buffer",
)
def its_state_dict_carries_everything(trial: Trial) -> None:
    """Another instance that loads its state_dict gives the same output, and is another one."""
    _copy_agrees(trial, "state_dict")


@claims(T.MODULE, limit=1, on=USUAL, hint="is something outside the module part of its state?")
def a_deep_copy_gives_the_same_output(trial: Trial) -> None:
    """A deep copy of it gives the same output, and is trained without changing the original."""
    _copy_agrees(trial, "deepcopy")


def _copy_agrees(trial: Trial, way: str) -> None:
    # A fresh one: results that a module keeps for show cannot be copied with their gradients.
    instance = construct(trial.bench.subject, trial.contract, trial.case)
    instance.set(trial.parameters)
    copy = instance.copy(way)
    trial.must_be_as_before(trial.run(instance=copy))
    if not trial.contract.has(Trait.INITIALISED):
        return
    # As if it were trained further: the copy keeps its weights, and another copy gets the new ones.
    other = parameters_of(replace(trial.case, seed=trial.case.seed + 1), trial.contract)
    wanted = trial.run(parameters=other, instance=instance)[0]
    trial.must_be_as_before(trial.run(instance=copy))
    second = trial.run(parameters=other, instance=instance.copy(way))[0]
    allowed = trial.expect(parameters=other).allowed[0]
    trial.must_stay(second, wanted, allowed, "output of a copy made after training")


def _state(module: Module) -> dict[str, Tensor]:
    return dict(module.read(None))


def _identical(got: Tensor, wanted: Tensor, what: str, problem: str) -> None:
    """Bit for bit, NaN included: nothing was computed in between."""
    if got.shape != wanted.shape:
        now = f"{problem}: shape {tuple(got.shape)}"
        raise Violation(Kind.SHAPE, f"shape {tuple(wanted.shape)} as before", now, what)
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    if not bool(same.all()):
        off = int((~same).sum())
        difference = float(torch.nan_to_num(got - wanted).abs().max())
        got_text = f"{problem}: {off} of {same.numel()} elements, by up to {difference:.3g}"
        raise Violation(Kind.VALUE, "exactly the same numbers", got_text, what)


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
