"""The results of a call are of the kind that the exercise requires, for every input."""

from headcheck.properties import comparison
from headcheck.properties.cases.case_transforms import at_least, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import MaskForm
from headcheck.properties.terms.peculiarity import SHORTER_THAN_CONTEXT, select_plainest
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.CONTRACT)
values = PropertyFamily(PropertyGroup.VALUES)
NAN_HINT = "at which step do ∞ or NaN enter the result?"


@family_property(
    after=FORM,
    dtypes=("float64", "float32"),
    hint="look for casts, and at the dtypes of new tensors",
)
def the_dtype_is_kept(context: CaseContext) -> None:
    """The output has the dtype of the input."""
    for name, dtype in zip(context.output_names, context.call().dtypes, strict=True):
        if dtype != context.case.dtype:
            narrowed = (context.case.dtype, dtype) == ("float64", "float32")
            reason = Reason.BECAME_FLOAT32 if narrowed else ""
            raise Violation(ViolationKind.DTYPE, context.case.dtype, dtype, name, reason=reason)


@family_property(after=FORM, hint="a new tensor is on the CPU unless it is told a device")
def the_device_is_kept(context: CaseContext) -> None:
    """The output is on the device of the input."""
    for name, device in zip(context.output_names, context.call().devices, strict=True):
        if device.split(":")[0] != context.case.device.split(":")[0]:
            raise Violation(ViolationKind.DEVICE, context.case.device, device, name)


@family_property(after=FORM, hint=NAN_HINT)
def the_output_is_finite(context: CaseContext) -> None:
    """Every number of the output is finite."""
    for output, name in zip(context.answer, context.output_names, strict=True):
        comparison.assert_finite(output, name)


@values(
    C.CONTEXT,
    after=FORM,
    limit=1,
    on=at_least(tokens=6),
    choose=select_plainest,
    about=SHORTER_THAN_CONTEXT,
    hint="one module gets inputs of many lengths; all its tensors must fit",
)
def every_length_up_to_the_context_works(context: CaseContext) -> None:
    """One module takes any number of tokens, from 1 to the longest length."""
    longest = context.case.context_length
    lengths = {1, 2, longest // 2, longest - 1, longest} if longest <= 16 else {1, longest}
    # The longest first: a mask that is cached for a single token would broadcast to all others.
    for tokens in sorted(lengths - {0}, reverse=True):
        x = context.x.repeat(1, 1 + longest // context.case.tokens, 1)[:2, :tokens]
        comparison.assert_finite(context.run(x)[0], hint=NAN_HINT)


@family_property(C.FUSED, after=FORM, limit=1)
def it_goes_through_the_fused_attention(context: LiveContext) -> None:
    """It computes attention with F.scaled_dot_product_attention."""
    for training in (False, True):
        options = CallOptions(watched=True, training=training)
        if "scaled_dot_product_attention" not in context.call_module(options=options).called:
            expected = "a call of F.scaled_dot_product_attention in forward"
            got = f"none was made in {'training' if training else 'evaluation'}"
            reason = "" if training else Reason.FUSED_NOT_CALLED
            raise Violation(ViolationKind.TYPE, expected, got, reason=reason)


@family_property(
    C.STATED,
    C.TAKES_MASK,
    after=FORM,
    limit=2,
    on=with_values(mask_form=MaskForm.NONE),
    hint="the mask is optional: forward must also work without one",
    redundant_because="other claims leave the mask out too; this one says so to whoever demands it",
)
def the_mask_may_be_left_out(context: LiveContext) -> None:
    """forward(x) works without a mask."""
    asked = context.harness.requested_contract.call_form.mask
    if context.contract.call_form.mask.required and not asked.required:
        expected, got = "a call without a mask", "it demands a mask"
        raise Violation(ViolationKind.TYPE, expected, got, reason=Reason.MASK_DEMANDED)
    context.run(memory="contiguous")
