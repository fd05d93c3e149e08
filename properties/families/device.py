"""The module works in other dtypes, on other devices and in other modes of torch."""

from dataclasses import replace

import torch

from headcheck.properties.cases.case_transforms import at_least, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM, the_weights_are_registered_and_trainable
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter, construct
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.violations import support
from headcheck.properties.violations.violation import SubmissionFailed, Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.DEVICE, FORM)
SECOND_DEVICE = "meta"
"""The worker's name for the device that exists in every process."""


@family_property(
    C.STATED,
    C.MODULE,
    after=(the_weights_are_registered_and_trainable,),
    on=with_values(dtype="float32"),
    dtypes=("float32",),
    limit=1,
    hint=".to() moves parameters and buffers, but no other tensors",
)
def it_moves_to_another_dtype(context: LiveContext) -> None:
    """module.to(torch.float64) moves everything that forward needs."""
    for called in (False, True):
        adapter = build_fresh_module(context)
        if called:  # what the first call keeps must be moved, too
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
        expected = "float64 after .to(torch.float64)"
        raise Violation(ViolationKind.DTYPE, expected, str(output.dtype), "output")
    context.assert_unchanged(output.double(), context.output, context.tolerance)
    for sentence in returned.unmoved:
        expected = "everything in float64 after .to(torch.float64)"
        raise Violation(ViolationKind.DTYPE, expected, sentence)


@family_property(
    C.STATED,
    after=(the_weights_are_registered_and_trainable,),
    limit=1,
    dtypes=("float32",),
    on=with_values(dtype="float32"),
    hint=".to() moves parameters and buffers, but no other tensors",
)
def it_moves_to_another_device(context: LiveContext) -> None:
    """After .to(device), for example to a GPU, everything that forward needs is on that device."""
    on_cpu = replace(context.case, device="cpu")
    adapter = construct(context.harness.subject, context.contract, on_cpu)
    # Called first, because what it keeps of a call must be moved, too.
    before = context.run_module(options=CallOptions(), adapter=adapter)
    try:
        _move(adapter, None, SECOND_DEVICE)
        returned = adapter.forward(context.x, context.mask, CallOptions())
    except SubmissionFailed as failure:
        raise support.classify_second_device_failure(failure) from None
    context.check_form(returned, context.x)
    for device, name in zip(returned.devices, context.output_names, strict=True):
        if device != SECOND_DEVICE:
            raise Violation(ViolationKind.DEVICE, "the device of the module", device, name)
    answer = tuple(output.double() for output in returned.outputs)
    context.assert_outputs_unchanged(answer, before, context.expected)
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
    """The output is the same with gradients recorded, without, and in inference mode."""
    for grad in ("grad", "inference"):
        # A fresh module: a tensor that is kept from inference mode can never be differentiated.
        adapter = build_fresh_module(context)
        answer = context.run_module(options=CallOptions(grad=grad), adapter=adapter)
        context.assert_answer_unchanged(answer)
