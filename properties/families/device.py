"""It goes where it is sent: other dtypes, other devices, other modes of torch."""

from dataclasses import replace

import torch

from properties import support
from properties.cases.case_transforms import at_least, with_values
from properties.contract import Capability
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.harness.harness import LiveContext
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
def it_moves_to_another_dtype(context: LiveContext) -> None:
    """module.to(torch.float64) moves everything that forward needs."""
    for called in (False, True):
        adapter = construct(context.harness.subject, context.contract, context.case)
        adapter.set(context.parameters)
        if called:  # what the first call makes and keeps must move along, too
            adapter.forward(context.x, context.mask, CallOptions())
        _assert_moves_to_float64(context, adapter)


def _assert_moves_to_float64(context: LiveContext, adapter: ModuleAdapter) -> None:
    _move(adapter, "float64", None)
    wide = context.harness.create_context(replace(context.case, dtype="float64"))
    moved = replace(adapter, case=wide.case)
    returned = moved.forward(context.x, context.mask, CallOptions())
    context.check_form(returned, context.x)
    output = returned.outputs[0]
    if output.dtype is not torch.float64:
        raise Violation(
            ViolationKind.DTYPE, "float64 after .to(torch.float64)", str(output.dtype), "output"
        )
    context.assert_unchanged(output.double(), context.output, context.tolerance)
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
def it_moves_to_another_device(context: LiveContext) -> None:
    """On another device it has all it needs there (tried by .to() on torch's meta device)."""
    adapter = construct(
        context.harness.subject, context.contract, replace(context.case, device="cpu")
    )
    before = context.run_module(
        options=CallOptions(), adapter=adapter
    )  # what it keeps of a call must move, too
    try:
        _move(adapter, None, SECOND_DEVICE)
        returned = adapter.forward(context.x, context.mask, CallOptions())
    except SubmissionFailed as failure:
        raise support.classify_second_device_failure(failure) from None
    context.check_form(returned, context.x)
    for device, name in zip(returned.devices, context.output_names, strict=True):
        if device != SECOND_DEVICE:
            raise Violation(ViolationKind.DEVICE, "the device of the module", device, name)
    rows = zip(
        returned.outputs, before, context.expected.tolerances, context.output_names, strict=True
    )
    for output, here, allowed, name in rows:
        context.assert_unchanged(output.double(), here, allowed, name)
    for sentence in returned.unmoved:
        raise Violation(ViolationKind.DEVICE, "everything on the device of the module", sentence)


def _move(adapter: ModuleAdapter, dtype: str | None, device: str | None) -> None:
    for module in {id(m): m for m in (adapter.module, adapter.holder)}.values():
        module.move(dtype, device)


@family_property(
    limit=1,
    on=at_least(tokens=3),
    hint="forward should not depend on whether gradients are recorded",
)
def gradients_on_or_off_is_the_same_answer(context: LiveContext) -> None:
    """With gradients recorded, without, and in inference mode the answer is the same."""
    for grad in ("grad", "inference"):
        # A fresh one: what is made and kept in inference mode can never be differentiated.
        adapter = construct(context.harness.subject, context.contract, context.case)
        context.assert_answer_unchanged(
            context.run_module(options=CallOptions(grad=grad), adapter=adapter)
        )


ALL = (
    it_moves_to_another_dtype,
    it_moves_to_another_device,
    gradients_on_or_off_is_the_same_answer,
)
