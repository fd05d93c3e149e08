"""Differential attention: the weights of a head are a softmax minus lambda times another.

They sum to 1 - lambda and may be negative, so the output is not an average of the values. The
properties in this file replace the properties of averages. They are about the sum of weights,
lambdas of zero and of any size, equal maps, exchanged maps, heads, and the initial lambdas.

Source: Ye et al. 2024, "Differential Transformer" (arXiv:2410.05258).
"""

import torch
from torch import Tensor

from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_transforms import at_least, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import (
    assert_each_head_has_its_own,
    assert_only_bias_left,
)
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.initialisation import read_first_initial_weights
from headcheck.properties.families.parameter_transforms import (
    give_equal_values,
    make_identity_projection,
    project_output,
    replace_parameters,
)
from headcheck.properties.harness import tomography
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import MaskForm
from headcheck.properties.violations.violation import Violation, ViolationKind

weights = PropertyFamily(PropertyGroup.WEIGHTS, FORM)
heads = PropertyFamily(PropertyGroup.HEADS, FORM)
initialisation = PropertyFamily(PropertyGroup.INITIALISATION, FORM)
NEEDS = (C.DIFFERENTIAL, C.PROJECTED, C.TOKENS)
HALF_HINT = "which columns of a head make the first map, and which the second?"
DIFFERENCE_HINT = "two softmaxes of each head: one minus lambda times the other"
FACTORS = (1024.0, -1.0, 2.0**-20)
"""the factors of lambdas; powers of two and signs cause no rounding"""


def _get_lambdas(context: CaseContext) -> Tensor:
    assert context.parameters.lambdas is not None, "the contract has lambdas"
    return context.parameters.lambdas


def _use_halves(context: CaseContext, first: int, second: int) -> dict[str, Tensor]:
    """Return the layers of queries and keys with one of their halves in both places."""

    def choose(t: Tensor) -> Tensor:
        halves: Tensor = t.unflatten(0, (len(t) // context.case.head_dim, 2, -1))
        return halves[:, [first, second]].flatten(0, 2)

    named = context.parameters.items()
    return {name: choose(t) for name, t in named if name in ("W_q", "b_q", "W_k", "b_k")}


@weights(*NEEDS, on=tomography.fit_for_recovery, limit=3, hint=DIFFERENCE_HINT, essential=True)
def the_weights_are_a_difference_of_softmaxes(context: CaseContext) -> None:
    """The weights are the softmax of the first halves' scores minus lambda times the second's."""
    recovered = context.compute_once(tomography.recover_weights)
    context.assert_close(recovered.weights, recovered.expected, recovered.tolerance, "weights")


@weights(*NEEDS, limit=3, hint="two softmaxes sum to one each: what does their difference sum to?")
def the_weights_sum_to_one_minus_lambda(context: CaseContext) -> None:
    """When all values are equal, every output is that value times 1 - lambda."""
    x, parameters = give_equal_values(context)
    expected = context.compute_expected(x, parameters)
    left = (1 - _get_lambdas(context))[:, None, None] * expected.exact.value
    wanted = project_output(context, parameters, left, x)
    context.assert_close(context.run(x, parameters)[0], wanted, expected.tolerances[0])


@weights(
    *NEEDS,
    C.CAUSAL,
    on=with_values(mask_form=MaskForm.NONE),
    limit=3,
    hint="if only one token is visible, both weights of it are 1",
)
def the_first_token_keeps_one_minus_lambda(context: CaseContext) -> None:
    """The first output is the first token's own value times 1 - lambda, whatever follows."""
    first = context.compute_expected(context.x[:, :1])
    context.assert_close(context.output[:, :1], first.outputs[0], context.tolerance[:, :1])


@weights(*NEEDS, on=at_least(tokens=2), limit=2, hint=HALF_HINT)
def with_lambda_zero_the_second_halves_do_not_count(context: CaseContext) -> None:
    """With lambdas of zero, the second halves of queries and keys do not matter."""
    nothing = torch.zeros_like(_get_lambdas(context))
    alone = replace_parameters(context, lambdas=nothing)
    twice = replace_parameters(context, lambdas=nothing, **_use_halves(context, 0, 0))
    tolerance = context.compute_expected(parameters=alone).tolerances[0]
    got, before = context.run(parameters=twice)[0], context.run(parameters=alone)[0]
    context.assert_unchanged(got, before, tolerance)


@weights(*NEEDS, on=at_least(tokens=2), limit=2, hint="equal maps cancel where lambda is one")
def equal_maps_cancel(context: CaseContext) -> None:
    """With equal halves and lambdas of one, the output is only the output layer's bias."""
    ones = torch.ones_like(_get_lambdas(context))
    parameters = replace_parameters(context, lambdas=ones, **_use_halves(context, 0, 0))
    assert_only_bias_left(context, parameters)


@weights(
    *NEEDS, C.PROPORTIONAL, limit=2, hint="lambda is a plain factor: no function is applied to it"
)
def the_output_is_linear_in_lambda(context: CaseContext) -> None:
    """The subtracted part is proportional to lambda, for large, small and negative lambdas."""
    none = replace_parameters(context, lambdas=0 * _get_lambdas(context))
    base, limit = context.run(parameters=none)[0], context.compute_expected(parameters=none)
    subtracted = context.output - base
    for factor in FACTORS:
        changed = replace_parameters(context, lambdas=factor * _get_lambdas(context))
        own = context.compute_expected(parameters=changed).tolerances[0]
        room = _scale(context.tolerance + limit.tolerances[0], abs(factor))
        output = context.run(parameters=changed)[0]
        tolerance = own + limit.tolerances[0] + room
        context.assert_unchanged(output, base + factor * subtracted, tolerance)


def _scale(tolerance: Tolerance, factor: float) -> Tolerance:
    return tolerance.map(lambda limit: limit * factor)


@heads(*NEEDS, C.OUTPUT_PROJECTION, on=at_least(tokens=2), limit=2, hint=HALF_HINT)
def maps_that_change_places_change_the_sign(context: CaseContext) -> None:
    """With lambdas of one, exchanging the halves changes the sign of every head's output."""
    ones, identity = torch.ones_like(_get_lambdas(context)), make_identity_projection(context)
    base = replace_parameters(context, lambdas=ones, **identity)
    other = replace_parameters(context, lambdas=ones, **identity, **_use_halves(context, 1, 0))
    tolerance = context.compute_expected(parameters=base).tolerances[0]
    got, before = context.run(parameters=other)[0], context.run(parameters=base)[0]
    context.assert_unchanged(got, -before, tolerance)


@heads(
    *NEEDS,
    C.HEADS,
    C.MODULE,
    C.PROPORTIONAL,
    on=at_least(heads=2, tokens=2),
    limit=2,
    hint="head 0 has the first lambda, head 1 the second, …",
)
def each_head_has_a_lambda_of_its_own(context: CaseContext) -> None:
    """Changing the lambda of one head changes the output of this head, and of no other."""
    assert_each_head_has_its_own(context, "lambdas")


@initialisation(
    C.DIFFERENTIAL,
    C.INITIALISED,
    C.STATED,
    on=at_least(heads=3),
    limit=1,
    hint="which number does the statement let each lambda start from?",
)
def lambdas_start_as_stated(context: LiveContext) -> None:
    """Every lambda starts from the number that the statement gives."""
    wanted = context.contract.lambda_init
    for number in context.compute_once(read_first_initial_weights)["lambdas"].tolist():
        if abs(number - wanted) > 1e-6:
            where = f"the initial {context.contract.describe_parameter('lambdas')}"
            raise Violation(ViolationKind.VALUE, f"{wanted:g}", f"{number:.4g}", where)
