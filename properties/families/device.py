"""It goes where it is sent: other dtypes, other devices, other modes of torch."""

from dataclasses import replace

import torch

from properties import support
from properties.cases.case_transforms import at_least, with_values
from properties.contract import Trait
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.harness.harness import Trial
from properties.harness.module_adapter import Instance, construct
from properties.property import Claims, Group
from properties.subject import How
from properties.violation import Kind, SubmissionFailed, Violation

claims = Claims(Group.DEVICE, FORM)
T = Trait
SECOND_DEVICE = "meta"
"""what the worker calls the device that there is in every process"""


@claims(
    T.MODULE,
    after=(the_weights_are_registered_and_trainable,),
    on=with_values(dtype="float32"),
    dtypes=("float32",),
    limit=1,
    hint="tensors that are parameters or buffers move along; make others from x",
)
def it_moves_to_another_dtype(trial: Trial) -> None:
    """module.to(torch.float64) moves everything that forward needs."""
    for called in (False, True):
        instance = construct(trial.bench.subject, trial.contract, trial.case)
        instance.set(trial.parameters)
        if called:  # what the first call makes and keeps must move along, too
            instance.forward(trial.x, trial.mask, How())
        _moves_to_float64(trial, instance)


def _moves_to_float64(trial: Trial, instance: Instance) -> None:
    _move(instance, "float64", None)
    wide = trial.bench.fresh(replace(trial.case, dtype="float64"))
    moved = replace(instance, case=wide.case)
    returned = moved.forward(trial.x, trial.mask, How())
    trial.check_form(returned, trial.x)
    output = returned.outputs[0]
    if output.dtype is not torch.float64:
        raise Violation(Kind.DTYPE, "float64 after .to(torch.float64)", str(output.dtype), "output")
    trial.must_stay(output.double(), trial.output, trial.allowed)
    for sentence in returned.unmoved:
        raise Violation(Kind.DTYPE, "everything in float64 after .to(torch.float64)", sentence)


@claims(
    after=(the_weights_are_registered_and_trainable,),
    limit=1,
    dtypes=("float32",),
    on=with_values(dtype="float32"),
    hint="register masks as buffers, or make them in forward with device=x.device",
)
def it_moves_to_another_device(trial: Trial) -> None:
    """On another device it has all it needs there (tried by .to() on torch's meta device)."""
    instance = construct(trial.bench.subject, trial.contract, replace(trial.case, device="cpu"))
    before = trial.run(how=How(), instance=instance)  # what it keeps of a call must move, too
    try:
        _move(instance, None, SECOND_DEVICE)
        returned = instance.forward(trial.x, trial.mask, How())
    except SubmissionFailed as failure:
        raise support.judged_on_second_device(failure) from None
    trial.check_form(returned, trial.x)
    for device, name in zip(returned.devices, trial.names, strict=True):
        if device != SECOND_DEVICE:
            raise Violation(Kind.DEVICE, "the device of the module", device, name)
    rows = zip(returned.outputs, before, trial.expected.allowed, trial.names, strict=True)
    for output, here, allowed, name in rows:
        trial.must_stay(output.double(), here, allowed, name)
    for sentence in returned.unmoved:
        raise Violation(Kind.DEVICE, "everything on the device of the module", sentence)


def _move(instance: Instance, dtype: str | None, device: str | None) -> None:
    for module in {id(m): m for m in (instance.module, instance.holder)}.values():
        module.move(dtype, device)


@claims(
    limit=1,
    on=at_least(tokens=3),
    hint="forward should not depend on whether gradients are recorded",
)
def gradients_on_or_off_is_the_same_answer(trial: Trial) -> None:
    """With gradients recorded, without, and in inference mode the answer is the same."""
    for grad in ("grad", "inference"):
        # A fresh one: what is made and kept in inference mode can never be differentiated.
        instance = construct(trial.bench.subject, trial.contract, trial.case)
        trial.must_be_as_before(trial.run(how=How(grad=grad), instance=instance))


ALL = (
    it_moves_to_another_dtype,
    it_moves_to_another_device,
    gradients_on_or_off_is_the_same_answer,
)
