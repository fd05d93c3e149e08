"""Other dtypes: float32 is as exact as float32 can be, bfloat16 runs."""

from properties import comparison
from properties.cases.case_transforms import at_least, both, with_values
from properties.contract import Trait
from properties.families.contract import FORM
from properties.families.values import it_equals_the_equation
from properties.harness.harness import Trial
from properties.harness.module_adapter import Instance
from properties.property import Claims, Group
from properties.subject import How
from properties.violation import Kind, Violation

claims = Claims(Group.PRECISION, FORM)
T = Trait


@claims(
    on=with_values(dtype="float32"),
    after=(it_equals_the_equation,),
    limit=4,
    dtypes=("float32",),
    hint="do not round to a smaller dtype on the way; build constants with dtype=x.dtype",
)
def float32_is_exact_to_float32(trial: Trial) -> None:
    """Given float32, the output is as exact as float32 arithmetic allows."""
    for dtype, name in zip(trial.returned().dtypes, trial.names, strict=True):
        if dtype != "float32":
            raise Violation(Kind.DTYPE, "float32", dtype, name)
    trial.must_match(trial.answer, trial.expected)


@claims(
    T.MODULE,
    T.INITIALISED,
    on=with_values(dtype="float32"),
    limit=1,
    dtypes=("float32",),
    hint="leave the dtype of parameters and buffers to torch.get_default_dtype()",
)
def it_takes_float32_as_built(trial: Trial) -> None:
    """Before anyone converts it, it takes float32 tokens and answers in float32."""
    arguments = trial.contract.arguments_for(trial.case)
    built = trial.bench.subject.construct(trial.contract.name, arguments, trial.case.seed)
    instance = Instance(trial.contract, trial.case, built, built, trial.bench.subject)
    returned = instance.forward(trial.x, trial.mask, How())
    trial.check_form(returned, trial.x)
    for dtype, name in zip(returned.dtypes, trial.names, strict=True):
        if dtype != "float32":
            raise Violation(Kind.DTYPE, "float32", dtype, name)


@claims(
    on=both(at_least(tokens=2), with_values(dtype="bfloat16", sharpness=1)),
    limit=1,
    dtypes=("bfloat16",),
    hint="use x.dtype for constants, and the finfo of that dtype",
)
def bfloat16_runs(trial: Trial) -> None:
    """Given bfloat16, it runs and gives finite numbers of the right shape."""
    for output, name in zip(trial.answer, trial.names, strict=True):
        comparison.finite(output, name)


ALL = (float32_is_exact_to_float32, it_takes_float32_as_built, bfloat16_runs)
