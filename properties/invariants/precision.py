"""Other dtypes: float32 is as exact as float32 can be, bfloat16 runs."""

from properties import comparison
from properties.contract import Trait
from properties.invariants.contract import FORM
from properties.invariants.values import it_equals_the_equation
from properties.property import Claims, Group
from properties.strategies import at_least, both, with_values
from properties.trial import Trial
from properties.violation import Kind, Violation

claims = Claims(Group.PRECISION, FORM)
T = Trait


@claims(
    on=with_values(dtype="float32"),
    after=(it_equals_the_equation,),
    limit=12,
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
    on=both(at_least(tokens=2), with_values(dtype="bfloat16", sharpness=1)),
    limit=3,
    dtypes=("bfloat16",),
    hint="use x.dtype for constants, and the finfo of that dtype",
)
def bfloat16_runs(trial: Trial) -> None:
    """Given bfloat16, it runs and gives finite numbers of the right shape."""
    for output, name in zip(trial.answer, trial.names, strict=True):
        comparison.finite(output, name)


ALL = (float32_is_exact_to_float32, bfloat16_runs)
