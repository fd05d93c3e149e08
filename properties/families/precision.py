"""Other dtypes: float32 is as exact as float32 can be, bfloat16 runs."""

from properties import comparison
from properties.cases.case_transforms import at_least, compose, with_values
from properties.contract import Capability
from properties.families.contract import FORM
from properties.families.values import it_equals_the_equation
from properties.harness.case_context import CaseContext
from properties.harness.harness import LiveContext
from properties.harness.module_adapter import ModuleAdapter
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions
from properties.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.PRECISION, FORM)
C = Capability


@family_property(
    on=with_values(dtype="float32"),
    after=(it_equals_the_equation,),
    limit=4,
    dtypes=("float32",),
    hint="do not round to a smaller dtype on the way; build constants with dtype=x.dtype",
)
def float32_is_exact_to_float32(context: CaseContext) -> None:
    """Given float32, the output is as exact as float32 arithmetic allows."""
    for dtype, name in zip(context.call().dtypes, context.output_names, strict=True):
        if dtype != "float32":
            raise Violation(ViolationKind.DTYPE, "float32", dtype, name)
    context.assert_matches_oracle(context.answer, context.expected)


@family_property(
    C.MODULE,
    C.INITIALISED,
    on=with_values(dtype="float32"),
    limit=1,
    dtypes=("float32",),
    hint="leave the dtype of parameters and buffers to torch.get_default_dtype()",
)
def it_takes_float32_as_built(context: LiveContext) -> None:
    """Before anyone converts it, it takes float32 tokens and answers in float32."""
    arguments = context.contract.build_arguments(context.case)
    built = context.harness.subject.construct(context.contract.name, arguments, context.case.seed)
    adapter = ModuleAdapter(context.contract, context.case, built, built, context.harness.subject)
    returned = adapter.forward(context.x, context.mask, CallOptions())
    context.check_form(returned, context.x)
    for dtype, name in zip(returned.dtypes, context.output_names, strict=True):
        if dtype != "float32":
            raise Violation(ViolationKind.DTYPE, "float32", dtype, name)


@family_property(
    on=compose(at_least(tokens=2), with_values(dtype="bfloat16", sharpness=1)),
    limit=1,
    dtypes=("bfloat16",),
    hint="use x.dtype for constants, and the finfo of that dtype",
)
def bfloat16_runs(context: CaseContext) -> None:
    """Given bfloat16, it runs and gives finite numbers of the right shape."""
    for output, name in zip(context.answer, context.output_names, strict=True):
        comparison.assert_finite(output, name)


ALL = (float32_is_exact_to_float32, it_takes_float32_as_built, bfloat16_runs)
