"""A gate multiplies the output of the heads, number by number, before the output layer.

Even if weights sum to one, the output is then only a share of an average. The properties in this
file replace the properties of averages: they are about gates of zeros, closed and open gates, the
token that makes a gate, and the place where it acts.
"""

import torch

from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import assert_other_columns_unchanged
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.gradients import (
    assert_gradients_right_with,
    the_gradients_of_the_weights_are_right,
)
from headcheck.properties.families.parameter_transforms import (
    give_equal_values,
    make_identity_projection,
    project_output,
    replace_parameters,
    zero_parameters,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import InputContent
from headcheck.reference import Parameters

values = PropertyFamily(PropertyGroup.VALUES, FORM)
weights = PropertyFamily(PropertyGroup.WEIGHTS, FORM)
gradients = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
heads = PropertyFamily(PropertyGroup.HEADS, FORM)
NEEDS = (C.GATED, C.PROJECTED, C.TOKENS)
GATE_HINT = "a sigmoid multiplies what goes into the output layer"
GATE = ("W_gate", "b_gate")
FAR = 1e4
"""the input to the sigmoid at which a gate is closed, or open, in any dtype"""
FACTOR = 2.0**13
"""a factor of usual numbers: exponentials of the products overflow, and nothing is rounded"""


@values(*NEEDS, C.PROPORTIONAL, limit=3, hint="what is the sigmoid of zero?")
def gates_of_zeros_let_half_through(context: CaseContext) -> None:
    """With zeros in the gate's layer, every gate is one half, and so halves what it multiplies."""
    half = replace_parameters(context, **zero_parameters(context, *GATE))
    plain = _drop_gate(half)
    halved = {n: t / 2 for n, t in plain.items() if n in ("W_v", "b_v")}
    ungated = Parameters(**{**dict(plain.items()), **halved})
    expected = context.compute_expected(parameters=ungated)
    tolerance = context.compute_expected(parameters=half).tolerances[0]
    context.assert_close(context.run(parameters=half)[0], expected.outputs[0], tolerance)


def _drop_gate(parameters: Parameters) -> Parameters:
    return Parameters(**{n: t for n, t in parameters.items() if n not in GATE})


@values(
    *NEEDS,
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="a gate is nearly 0 or nearly 1 where its layer gives large numbers",
)
def gates_open_and_close(context: CaseContext) -> None:
    """Open gates give attention without gates, and closed gates only the output layer's bias."""
    x = context.x.clone()
    x[..., 0] = 1
    bias = context.parameters.b_o
    nothing = torch.zeros(context.case.d_out) if bias is None else bias
    plain = context.compute_expected(x, _drop_gate(context.parameters)).outputs[0]
    for sign, wanted in ((1, plain), (-1, nothing.expand_as(plain).double())):
        gate = zero_parameters(context, *GATE)
        gate["W_gate"][:, 0] = sign * FAR
        parameters = replace_parameters(context, **gate)
        tolerance = context.compute_expected(x, parameters).tolerances[0]
        context.assert_close(context.run(x, parameters)[0], wanted, tolerance)


@values(
    *NEEDS,
    C.NORMALISED,
    C.UNCOMPRESSED,
    on=compose(at_least(tokens=3, d_in=2), with_values(content=InputContent.NORMAL)),
    limit=3,
    hint="whose gate is it: the gate of the query's token, or of the keys?",
)
def a_gate_is_made_of_the_token_that_asks(context: CaseContext) -> None:
    """Changing only the gate of a token changes only the output of this token."""
    x, parameters = give_equal_values(context)
    token = context.case.tokens // 2
    changed = x.clone()
    changed[:, token, 1:] = 3 - 2 * changed[:, token, 1:]
    before, after = context.run(x, parameters)[0], context.run(changed, parameters)[0]
    expected = context.compute_expected(changed, parameters)
    others = [row for row in range(context.case.tokens) if row != token]
    what = f"output of others than token {token}"
    tolerance = expected.tolerances[0][:, others]
    context.assert_unchanged(after[:, others], before[:, others], tolerance, what)
    context.assert_close(after, expected.outputs[0], expected.tolerances[0])


@weights(*NEEDS, C.NORMALISED, C.UNCOMPRESSED, limit=3, hint=GATE_HINT, essential=True)
def equal_values_come_through_the_gate(context: CaseContext) -> None:
    """When all values are equal, every output is this value times the token's gate."""
    x, parameters = give_equal_values(context)
    expected = context.compute_expected(x, parameters)
    value = project_output(context, parameters, expected.exact.value, x)
    context.assert_close(context.run(x, parameters)[0], value, expected.tolerances[0])


@heads(
    *NEEDS,
    C.MODULE,
    on=at_least(heads=2, head_dim=2),
    limit=3,
    hint="row c of the gate's layer gates number c, or head c",
)
def each_number_has_a_gate_of_its_own(context: CaseContext) -> None:
    """Changing a row of the gate's layer changes only the numbers that this row gates."""
    identity = make_identity_projection(context)
    base = replace_parameters(context, **identity)
    before = context.run(parameters=base)[0]
    assert base.W_gate is not None, "the contract has a gate"
    width = context.case.d_out // len(base.W_gate)
    for row in {0, len(base.W_gate) - 1}:
        gate = base.W_gate.clone()
        gate[row] *= -2
        changed = replace_parameters(context, **identity, W_gate=gate)
        whose = f"column {row}" if width == 1 else f"head {row}"
        own = slice(row * width, (row + 1) * width)
        assert_other_columns_unchanged(context, changed, before, own, whose)


@gradients(
    *NEEDS,
    C.MODULE,
    C.STABLE,
    after=(it_equals_the_equation, the_gradients_of_the_weights_are_right),
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="exponentials of large numbers overflow, and ∞ / ∞ is NaN",
)
def far_gates_have_finite_gradients(context: CaseContext) -> None:
    """Gates with inputs far from zero leave all gradients finite."""
    assert context.parameters.W_gate is not None, "the contract has a gate"
    parameters = replace_parameters(context, W_gate=FACTOR * context.parameters.W_gate)
    assert_gradients_right_with(context, parameters)
