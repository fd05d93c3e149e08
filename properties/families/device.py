"""It goes where it is sent: other dtypes, other devices, other modes of torch."""

from dataclasses import replace

import torch

from properties import support
from properties.cases.case_transforms import at_least, with_values
from properties.contract import Capability
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.harness.harness import CaseContext
from properties.harness.module_adapter import ModuleAdapter, construct
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions
from properties.violation import SubmissionFailed, Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.DEVICE, FORM)
C = Capability
SECOND_DEVICE = "meta"
"""what the worker calls the device that there is in every process"""


@family_property(
    C.MODULE,
    after=(the_weights_are_registered_and_trainable,),
    on=with_values(dtype="float32"),
    dtypes=("float32",),
    limit=1,
    hint="tensors that are parameters or buffers move along; make others from x",
)
def it_moves_to_another_dtype(trial: CaseContext) -> None:
    """module.to(torch.float64) moves everything that forward needs."""
    for called in (False, True):
        instance = construct(trial.harness.subject, trial.contract, trial.case)
        instance.set(trial.parameters)
        if called:  # what the first call makes and keeps must move along, too
            instance.forward(trial.x, trial.mask, CallOptions())
        _assert_moves_to_float64(trial, instance)


def _assert_moves_to_float64(trial: CaseContext, instance: ModuleAdapter) -> None:
    _move(instance, "float64", None)
    wide = trial.harness.create_context(replace(trial.case, dtype="float64"))
    moved = replace(instance, case=wide.case)
    returned = moved.forward(trial.x, trial.mask, CallOptions())
    trial.check_form(returned, trial.x)
    output = returned.outputs[0]
    if output.dtype is not torch.float64:
        raise Violation(
            ViolationKind.DTYPE, "float64 after .to(torch.float64)", str(output.dtype), "output"
        )
    trial.assert_unchanged(output.double(), trial.output, trial.tolerance)
    for sentence in returned.unmoved:
        raise Violation(
            ViolationKind.DTYPE, "everything in float64 after .to(torch.float64)", sentence
        )


@family_property(
    after=(the_weights_are_registered_and_trainable,),
    limit=1,
    dtypes=("float32",),
    on=with_values(dtype="float32"),
    hint="register masks as buffers, or make them in forward with device=x.device",
)
def it_moves_to_another_device(trial: CaseContext) -> None:
    """On another device it has all it needs there (tried by .to() on torch's meta device)."""
    instance = construct(trial.harness.subject, trial.contract, replace(trial.case, device="cpu"))
    before = trial.run(
        how=CallOptions(), instance=instance
    )  # what it keeps of a call must move, too
    try:
        _move(instance, None, SECOND_DEVICE)
        returned = instance.forward(trial.x, trial.mask, CallOptions())
    except SubmissionFailed as failure:
        raise support.classify_second_device_failure(failure) from None
    trial.check_form(returned, trial.x)
    for device, name in zip(returned.devices, trial.output_names, strict=True):
        if device != SECOND_DEVICE:
            raise Violation(ViolationKind.DEVICE, "the device of the module", device, name)
    rows = zip(returned.outputs, before, trial.expected.tolerances, trial.output_names, strict=True)
    for output, here, allowed, name in rows:
        trial.assert_unchanged(output.double(), here, allowed, name)
    for sentence in returned.unmoved:
        raise Violation(ViolationKind.DEVICE, "everything on the device of the module", sentence)


def _move(instance: ModuleAdapter, dtype: str | None, device: str | None) -> None:
    for module in {id(m): m for m in (instance.module, instance.holder)}.values():
        module.move(dtype, device)


@family_property(
    limit=1,
    on=at_least(tokens=3),
    hint="forward should not depend on whether gradients are recorded",
)
def gradients_on_or_off_is_the_same_answer(trial: CaseContext) -> None:
    """With gradients recorded, without, and in inference mode the answer is the same."""
    for grad in ("grad", "inference"):
        # A fresh one: what is made and kept in inference mode can never be differentiated.
        instance = construct(trial.harness.subject, trial.contract, trial.case)
        trial.assert_answer_unchanged(trial.run(how=CallOptions(grad=grad), instance=instance))


ALL = (
    it_moves_to_another_dtype,
    it_moves_to_another_device,
    gradients_on_or_off_is_the_same_answer,
)
