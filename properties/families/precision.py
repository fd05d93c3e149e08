"""Other dtypes: float32 is as exact as possible, and 16 bits are as exact as in plain torch.

In 16 bits the bound of `properties/bounds/attention.py` also holds, but it is wide: it would accept
errors of several percent. So the error is also compared with the errors of plain torch, which
computes the equation in the same dtype by several algorithms. All errors are root mean squares of
differences from float64, and the largest counts: see "Errors in 16 bits" in docs/mathematics.md.
Errors are compared only at the sizes of `HALF_SIZES`. On longer sequences, sums that a loop
accumulates in 16 bits become less exact. With two tokens the mean covers few roundings, and plain
torch may have no rounding error at all.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties import comparison
from headcheck.properties.bounds import right_algorithms
from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.cases.case_tensors import DTYPES
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.contracts.contract import Contract, Returns
from headcheck.properties.contracts.variant import describe_call, get_variant
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.parameter_transforms import replace_parameters, zero_parameters
from headcheck.properties.families.values import (
    float32_gives_the_equation_too,
    it_equals_the_equation,
)
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter
from headcheck.properties.parts import WEIGHTS
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.peculiarity import DOUBLE_PRECISION, select_plainest
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)
from headcheck.reference import Parameters, multi_head_attention, transformer_block

family_property = PropertyFamily(PropertyGroup.PRECISION, FORM)
LARGEST_RATIO = 3.0
"""the largest ratio of an error to the largest error of plain torch that passes"""
HALF_VALUE_FACTORS = (2.0**20, 2.0**-30)
"""factors of values: bfloat16 has float32's range, so values of millions and of billionths fit"""


@family_property(
    limit=2,
    choose=select_plainest,
    about=DOUBLE_PRECISION,
    dtypes=("float64",),
    hint="if the code names a dtype, should it be x.dtype?",
)
def it_computes_in_float64(context: CaseContext) -> None:
    """It computes with float64 input: no step insists on another dtype."""
    context.call()


@family_property(
    on=with_values(dtype="float32"),
    after=(float32_gives_the_equation_too,),
    limit=4,
    dtypes=("float32",),
    hint="no step may have fewer digits than float32",
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
    hint="parameters and buffers are made in torch's default dtype",
)
def it_takes_float32_as_built(context: LiveContext) -> None:
    """As built, without conversion, it takes float32 tokens and returns float32."""
    arguments = context.contract.build_arguments(context.case)
    # Without a dtype: `construct` would convert the module to that of the case.
    built = context.harness.subject.construct(
        context.contract.name,
        arguments,
        context.case.seed,
        form=describe_call(context.contract, context.case),
        variables=context.contract.build_variables(context.case),
    )
    adapter = ModuleAdapter(context.contract, context.case, built, built, context.harness.subject)
    returned = adapter.forward(context.x, context.mask, CallOptions())
    context.check_form(returned, context.x)
    for dtype, name in zip(returned.dtypes, context.output_names, strict=True):
        if dtype != "float32":
            raise Violation(ViolationKind.DTYPE, "float32", dtype, name)


@family_property(
    C.HALF,
    on=compose(at_least(tokens=2), with_values(dtype="bfloat16", sharpness=1)),
    limit=1,
    dtypes=("bfloat16",),
    hint="some numbers or new tensors may fit float32 only",
)
def bfloat16_runs(context: CaseContext) -> None:
    """Given bfloat16, it runs and gives finite numbers of the right shape."""
    for output, name in zip(context.answer, context.output_names, strict=True):
        comparison.assert_finite(output, name)


HALF_SIZES = ({"batch": 2, "tokens": 24, "d_in": 12, "heads": 3, "head_dim": 8, "sharpness": 2},)
HALF_HINT = "some step loses more digits than plain torch does, or overflows"


half_property = functools.partial(
    family_property, C.HALF, C.ATTENTION, C.TOKENS, sizes=HALF_SIZES, hint=HALF_HINT
)


@half_property(
    on=compose(at_least(tokens=2), with_values(dtype="bfloat16")),
    after=(bfloat16_runs, it_equals_the_equation),
    dtypes=("bfloat16",),
)
def bfloat16_is_as_exact_as_plain_torch(context: CaseContext) -> None:
    """Given bfloat16, values and gradients are as exact as those of plain torch."""
    for dtype, name in zip(context.call().dtypes, context.output_names, strict=True):
        if dtype != context.case.dtype:
            raise Violation(ViolationKind.DTYPE, context.case.dtype, dtype, name)
    assert_half_precision(context)
    if context.contract.has(C.PROJECTED):
        plain = zero_parameters(context, "b_v", "b_o")
        for factor in HALF_VALUE_FACTORS:
            W_v = factor * context.parameters.W_v
            assert_exact_values(context, replace_parameters(context, **plain, W_v=W_v))


@half_property(
    on=compose(at_least(tokens=2), with_values(dtype="float16")),
    after=(it_equals_the_equation,),
    dtypes=("float16",),
)
def float16_is_as_exact_as_plain_torch(context: CaseContext) -> None:
    """If it accepts float16, values and gradients are as exact as those of plain torch."""
    try:
        context.call()
    except SubmissionFailed as failure:
        if failure.status is Status.CRASHED:
            return  # nothing is promised about float16, and a refusal deceives nobody
        raise
    if not bool(context.derive(_compute_own_outputs)[0].isfinite().all()):
        return  # scores beyond 65504 are infinite there for everybody
    assert_half_precision(context)


def assert_half_precision(context: CaseContext) -> None:
    """Raise Violation unless values and gradients are as exact as those of plain torch."""
    assert_exact_values(context, context.parameters)
    if context.contract.has(C.PROJECTED, C.MODULE):
        assert_exact_gradients(context)


def assert_exact_values(context: CaseContext, parameters: Parameters) -> None:
    """Raise Violation unless the values are within the bound, and as exact as plain torch's."""
    expected = context.compute_expected(parameters=parameters)
    got = context.run(parameters=parameters)
    context.assert_matches_oracle(got, expected)
    if has_compared_sizes(context.contract, context.case):
        own = parameters is context.parameters
        plain = (
            context.derive(_compute_own_outputs) if own else _compute_outputs(context, parameters)
        )
        assert_comparable(got[0], plain, expected.outputs[0], "output")


def assert_exact_gradients(context: CaseContext) -> None:
    """Raise Violation unless the gradients are within the bound, and as exact as plain torch's."""
    own, exact = (
        context.compute_gradients(context.cotangent),
        context.compute_exact_gradients(context.cotangent),
    )
    compared = has_compared_sizes(context.contract, context.case)
    for name, wanted in exact.values.items():
        got, where = own.get(name), f"gradient of {context.contract.describe_parameter(name)}"
        if got is None or name == "b_k":  # it cancels: what is left is rounding
            continue
        context.assert_close(got.double(), wanted, exact.compute_tolerance(name), where)
        # Sinks are a number for each head: of so few it is chance which are more exact.
        few = name in WEIGHTS and WEIGHTS[name].is_per_head
        if compared and not few:
            plain = [found[name] for found in context.derive(_compute_own_gradients)]
            assert_comparable(got.double(), plain, wanted, where)


def _round(context: CaseContext, parameters: Parameters) -> dict[str, Tensor]:
    dtype = DTYPES[context.case.dtype]
    given = {"x": context.x, **dict(parameters.items())}
    return {name: tensor.detach().to(dtype) for name, tensor in given.items()}


def _compute_outputs(context: CaseContext, parameters: Parameters) -> list[Tensor]:
    compute = functools.partial(_compute_plainly, context)
    with torch.no_grad():
        return right_algorithms.compute_outputs(compute, _round(context, parameters))


def _compute_own_outputs(context: CaseContext) -> list[Tensor]:
    return _compute_outputs(context, context.parameters)


def _compute_own_gradients(context: CaseContext) -> list[dict[str, Tensor]]:
    compute, leaves = (
        functools.partial(_compute_plainly, context),
        _round(context, context.parameters),
    )
    return right_algorithms.compute_gradients(compute, leaves, context.cotangent)


def _compute_plainly(context: CaseContext, leaves: Mapping[str, Tensor]) -> Tensor:
    """Compute the first output by the equation, in the dtype of the leaves."""
    contract, case = context.contract, context.case
    parameters = Parameters(**{name: leaf for name, leaf in leaves.items() if name != "x"})
    visible = context.may_attend(case.tokens, context.mask)
    scale, variant = get_scale(contract, case), get_variant(contract, case)
    given = leaves["x"], parameters, case.heads, visible, scale
    if variant.block is not None:
        return transformer_block(*given, variant).output
    result = multi_head_attention(*given, variant=variant)
    return result.weights[:, 0] if contract.returns is Returns.WEIGHTS_TWICE else result.output


def has_compared_sizes(contract: Contract, case: Case) -> bool:
    """Return whether the case has the sizes that are compared, as far as the contract has them."""
    [sizes] = HALF_SIZES
    compared = {**sizes, "context_length": sizes["tokens"], "batch": case.batch}
    wanted = replace(case, **compared)  # type: ignore[arg-type]  # as the fields
    return contract.fit(wanted) == case


def assert_comparable(got: Tensor, plain: list[Tensor], exact: Tensor, where: str) -> None:
    """Raise Violation unless the error of `got` is like the errors of plain torch's results."""
    own, worst = measure_errors(got, plain, exact)
    if own > LARGEST_RATIO * worst and not math.isclose(own, 0.0, abs_tol=1e-30):
        expected = f"an error like those of plain torch, up to {worst:.3g} (root mean square)"
        raise Violation(ViolationKind.VALUE, expected, f"{own:.3g}", where)


def measure_errors(got: Tensor, plain: list[Tensor], exact: Tensor) -> tuple[float, float]:
    """Return the error of `got` and the largest finite error of plain torch's results."""
    own, *theirs = (float((t.double() - exact).square().mean().sqrt()) for t in (got, *plain))
    return own, max(filter(math.isfinite, theirs), default=math.inf)
