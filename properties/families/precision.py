"""Other dtypes: float32 is as exact as possible, and 16 bits are as exact as in plain torch.

In 16 bits the bound of `properties/bounds/attention.py` also holds, but it is wide: it would accept
errors of several percent. So the error is also compared with the error of plain torch, which
computes the equation in the same dtype. Both errors are root mean squares of differences from
float64. Over the right answers of the banks the largest ratio was 1.7 for values (log-sum-exp) and
1.3 for gradients, on sequences of some tokens, but 6 for log-sum-exp of scores that are not scaled;
a ratio above `LARGEST_RATIO`, or above a proportionally larger limit if scores are large, is a
violation. (FlashAttention's tests allow 2 and 3.) Errors are compared only at the sizes of
`HALF_SIZES`. On longer sequences, sums that a loop accumulates in 16 bits become less exact, and
gradients of 300 tokens by two loops had a ratio of 5.4. With two tokens the mean covers few
roundings, and plain torch may have no rounding error at all.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties import comparison
from headcheck.properties.bounds.oracle import Expected, get_scale
from headcheck.properties.cases.case_tensors import DTYPES
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability, Contract, Returns
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
C = Capability
LARGEST_RATIO, USUAL_SCORE = 4.0, 6.0
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
LONG_IN_HALF = {"batch": 1, "tokens": 262, "d_in": 4, "heads": 1, "head_dim": 4, "sharpness": 2}
"""a case with more tokens than bfloat16 can count: 257 is 256 there, and 261 is 260"""
HALF_HINT = "some step loses more digits than plain torch does, or overflows"


@family_property(
    C.HALF,
    C.ATTENTION,
    C.TOKENS,
    sizes=HALF_SIZES,
    on=compose(at_least(tokens=2), with_values(dtype="bfloat16")),
    after=(bfloat16_runs, it_equals_the_equation),
    dtypes=("bfloat16",),
    hint=HALF_HINT,
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


@family_property(
    C.HALF,
    C.CAUSAL,
    C.TOKENS,
    C.WIDTHS,
    sizes=(LONG_IN_HALF,),
    on=compose(at_least(tokens=4), with_values(dtype="bfloat16")),
    after=(bfloat16_is_as_exact_as_plain_torch,),
    dtypes=("bfloat16",),
    hint="bfloat16 has 8 bits: are positions counted in it?",
)
def bfloat16_hides_the_future_of_long_sequences(context: CaseContext) -> None:
    """Given bfloat16, later tokens stay invisible in sequences of more than 256 tokens."""
    for start in (context.case.tokens - 5, context.case.tokens - 1):
        # One of the signs makes the score of whoever sees the change large.
        for factor in (-64, 64):
            changed = context.x.clone()
            changed[:, start:] *= factor
            output = context.run(changed)[0]
            what = f"output after a change of token {start} and all later ones"
            tolerance = context.tolerance[:, :start]
            context.assert_unchanged(output[:, :start], context.output[:, :start], tolerance, what)


@family_property(
    C.HALF,
    C.ATTENTION,
    C.TOKENS,
    sizes=HALF_SIZES,
    on=compose(at_least(tokens=2), with_values(dtype="float16")),
    after=(it_equals_the_equation,),
    dtypes=("float16",),
    hint=HALF_HINT,
)
def float16_is_as_exact_as_plain_torch(context: CaseContext) -> None:
    """If it accepts float16, values and gradients are as exact as those of plain torch."""
    try:
        context.call()
    except SubmissionFailed as failure:
        if failure.status is Status.CRASHED:
            return  # nothing is promised about float16, and a refusal deceives nobody
        raise
    if _plain_torch_overflows(context):
        return  # scores beyond 65504 are infinite there for everybody
    assert_half_precision(context)


def _plain_torch_overflows(context: CaseContext) -> bool:
    return not bool(context.derive(_compute_plain_output).isfinite().all())


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
    if not has_compared_sizes(context.contract, context.case):
        return
    own = parameters is context.parameters
    plain = context.derive(_compute_plain_output) if own else _compute_output(context, parameters)
    largest = compute_largest_ratio(expected)
    _assert_comparable(got[0], plain, expected.outputs[0], "output", largest)


def assert_exact_gradients(context: CaseContext) -> None:
    """Raise Violation unless the gradients are within the bound, and as exact as plain torch's."""
    own, exact = (
        context.compute_gradients(context.cotangent),
        context.compute_exact_gradients(context.cotangent),
    )
    for name, other in context.derive(_compute_plain_gradients).items():
        got, where = own.get(name), f"gradient of {context.contract.describe_parameter(name)}"
        if got is None or name == "b_k":  # it cancels: what is left is rounding
            continue
        limit = exact.compute_tolerance(name)
        context.assert_close(got.double(), exact.values[name], limit, where)
        # Sinks are a number for each head: of so few it is chance which are more exact.
        few = name in WEIGHTS and WEIGHTS[name].is_per_head
        if not few and has_compared_sizes(context.contract, context.case):
            largest = compute_largest_ratio(context.expected)
            _assert_comparable(got.double(), other, exact.values[name], where, largest)


def _round(context: CaseContext, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    dtype = DTYPES[context.case.dtype]
    return {name: tensor.detach().to(dtype) for name, tensor in tensors.items()}


def _compute_output(context: CaseContext, parameters: Parameters) -> Tensor:
    leaves = _round(context, {"x": context.x, **dict(parameters.items())})
    with torch.no_grad():
        return _compute_plainly(context, leaves)


def _compute_plain_output(context: CaseContext) -> Tensor:
    return _compute_output(context, context.parameters)


def _compute_plain_gradients(context: CaseContext) -> dict[str, Tensor]:
    leaves = _round(context, {"x": context.x, **dict(context.parameters.items())})
    leaves = {name: leaf.requires_grad_() for name, leaf in leaves.items()}
    with torch.enable_grad():
        output = _compute_plainly(context, leaves)
    found = torch.autograd.grad(output, list(leaves.values()), context.cotangent.to(output.dtype))
    return dict(zip(leaves, found, strict=True))


def _compute_plainly(context: CaseContext, leaves: dict[str, Tensor]) -> Tensor:
    """Compute the first output by the equation, in the dtype of the case."""
    contract, case = context.contract, context.case
    parameters = Parameters(**{name: leaf for name, leaf in leaves.items() if name != "x"})
    visible = context.may_attend(case.tokens, context.mask)
    scale, variant = get_scale(contract, case), get_variant(contract, case)
    given = leaves["x"], parameters, case.heads, visible, scale
    if variant.block is not None:
        return transformer_block(*given, variant).output
    result = multi_head_attention(*given, variant=variant)
    return result.weights[:, 0] if contract.returns is Returns.WEIGHTS_TWICE else result.output


def compute_largest_ratio(expected: Expected) -> float:
    """Return the largest allowed ratio of the error to that of plain torch.

    The error of a score s is proportional to s. Log-sum-exp keeps this error, and torch's softmax
    does not.
    """
    largest_score = float(expected.exact.scores.abs().max())
    return LARGEST_RATIO * max(1.0, largest_score / USUAL_SCORE)


def has_compared_sizes(contract: Contract, case: Case) -> bool:
    """Return whether the case has the sizes that are compared, as far as the contract has them."""
    [sizes] = HALF_SIZES
    compared = {**sizes, "context_length": sizes["tokens"], "batch": case.batch}
    wanted = replace(case, **compared)  # type: ignore[arg-type]  # as the fields
    return contract.fit(wanted) == case


def _assert_comparable(
    got: Tensor, plain: Tensor, exact: Tensor, where: str, largest: float
) -> None:
    own, theirs = (float((t.double() - exact).square().mean().sqrt()) for t in (got, plain))
    if own > largest * theirs and not math.isclose(own, 0.0, abs_tol=1e-30):
        expected = f"an error like that of plain torch, {theirs:.3g} (root mean square)"
        raise Violation(ViolationKind.VALUE, expected, f"{own:.3g}", where)
