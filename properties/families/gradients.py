"""Training works: the gradients are those of the equation, and none is cut off."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from properties import comparison
from properties.case import InputContent
from properties.cases.case_tensors import draw_normal, make_parameters, round_to_dtype
from properties.cases.case_transforms import at_least, with_values
from properties.contract import Capability
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.families.values import it_equals_the_equation
from properties.harness.case_context import CaseContext
from properties.harness.harness import LiveContext
from properties.harness.module_adapter import construct
from properties.oracle import ExactGradients
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions
from properties.tolerance import PRECISIONS, Tolerance
from properties.violation import Violation, ViolationKind
from reference import Parameters

family_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
CORRECT_VALUES = (it_equals_the_equation,)
C = Capability
STEP_SIZE = 1e-5
CUT_HINT = (
    "is there a detach(), .data, .item(), torch.no_grad(), a new tensor made of old numbers, or a "
    "change in place?"
)


def compute_exact_gradients(context: CaseContext) -> ExactGradients:
    """The oracle's gradients for the case's own cotangent."""
    return context.compute_exact_gradients(context.cotangent)


def compute_submission_gradients(context: CaseContext) -> dict[str, Tensor | None]:
    """The submission's gradients for the same cotangent."""
    return context.compute_gradients(context.cotangent)


def _assert_gradients_close(context: CaseContext, names: list[str]) -> None:
    own, exact = (
        context.compute_once(compute_submission_gradients),
        context.compute_once(compute_exact_gradients),
    )
    for name in names:
        got = own.get(name)
        where = name if name == "x" else context.contract.describe_parameter(name)
        if got is None and not bool(exact.values[name].any()):
            continue  # one token has a weight of one, whatever its query and key are
        if got is None:
            raise Violation(ViolationKind.VALUE, "a gradient", "none reaches it", where)
        context.assert_close(
            got.to(torch.float64),
            exact.values[name],
            exact.compute_tolerance(name),
            f"gradient of {where}",
        )


@family_property(C.TOKENS, after=CORRECT_VALUES, limit=6, hint=CUT_HINT)
def the_gradient_of_the_input_is_right(context: CaseContext) -> None:
    """The gradient that reaches the input equals that of the equation."""
    _assert_gradients_close(context, ["x"])


@family_property(C.PROJECTED, C.TOKENS, after=CORRECT_VALUES, limit=6, hint=CUT_HINT)
def the_gradients_of_the_weights_are_right(context: CaseContext) -> None:
    """The gradient of every weight equals that of the equation."""
    named = context.contract.mappings
    names = {n for slot in named for n in slot.holds}
    present = dict(context.parameters.items())
    _assert_gradients_close(context, [n for n in present if n in names])


@family_property(C.PROJECTED, C.MODULE, on=at_least(tokens=3), limit=2, hint=CUT_HINT)
def every_weight_gets_a_gradient(context: CaseContext) -> None:
    """Every weight that changes the output gets a gradient, so that all of it is trained."""
    own, exact = (
        context.compute_once(compute_submission_gradients),
        context.compute_once(compute_exact_gradients),
    )
    for name, _ in context.parameters.items():
        got, wanted = own.get(name), exact.values[name]
        size = exact.scales[name]
        # What is left of a gradient that cancels is rounding, which is zero by chance only.
        if bool((wanted.abs() > 1e-6 * size).any()) and (
            got is None or not bool((got.abs() > 1e-9 * size).any())
        ):
            expected, where = (
                "a gradient other than zero",
                context.contract.describe_parameter(name),
            )
            raise Violation(ViolationKind.VALUE, expected, "none", where)


@family_property(
    C.TOKENS,
    on=with_values(dtype="float64", sharpness=1, content=InputContent.NORMAL),
    dtypes=("float64",),
    limit=2,
    hint=CUT_HINT,
)
def the_gradient_predicts_a_small_step(context: CaseContext) -> None:
    """A small step changes the output by as much as the gradient says."""
    if _is_only_float32_exact(context):
        return  # its rounding, divided by the step, would hide the slope
    direction = round_to_dtype(draw_normal(context.case, "x2", *context.x.shape), context.case)
    ahead, behind = context.run_stacked(
        context.x + STEP_SIZE * direction, context.x - STEP_SIZE * direction
    )
    _assert_gradients_predict_change(context, {"x": direction}, ahead - behind)


@family_property(
    C.TOKENS,
    C.PROJECTED,
    C.MODULE,
    on=with_values(dtype="float64", sharpness=1, content=InputContent.NORMAL),
    dtypes=("float64",),
    limit=1,
    hint=CUT_HINT,
)
def the_gradients_predict_a_small_step_of_the_weights(context: CaseContext) -> None:
    """A small step of all weights changes the output by as much as their gradients say."""
    if _is_only_float32_exact(context):
        return  # its rounding, divided by the step, would hide the slope
    here = dict(context.parameters.items())
    other = make_parameters(replace(context.case, seed=context.case.seed + 1), context.contract)
    directions = dict(other.items())
    ahead, behind = (
        context.run(parameters=Parameters(**{n: here[n] + step * directions[n] for n in here}))[0]
        for step in (STEP_SIZE, -STEP_SIZE)
    )
    _assert_gradients_predict_change(context, directions, ahead - behind)


def _assert_gradients_predict_change(
    context: CaseContext, directions: Mapping[str, Tensor], change: Tensor
) -> None:
    """Raises Violation unless the gradients say how the output changes over two small steps."""
    own, exact = (
        context.compute_once(compute_submission_gradients),
        context.compute_once(compute_exact_gradients),
    )
    slope = (change / (2 * STEP_SIZE) * context.cotangent).sum().reshape(1)
    predicted, size = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for name, direction in directions.items():
        gradient = own.get(name)
        if gradient is not None:
            predicted += (gradient.double() * direction).sum()
        size += (exact.scales[name] * direction.abs()).sum()
    # The third derivative contributes STEP² times a moderate multiple of the natural size.
    allowed = Tolerance(1e-6 * size, 1e-6 * size)
    cut = [name for name in directions if own.get(name) is None]
    if cut and bool((predicted - slope).abs() > allowed.exact):
        where = "x" if cut[0] == "x" else context.contract.describe_parameter(cut[0])
        raise Violation(ViolationKind.VALUE, "a gradient", "none reaches it", where)
    comparison.check_close(predicted, slope, allowed, "change predicted by the gradient")


@family_property(
    C.TOKENS,
    C.PROJECTED,
    C.MODULE,
    C.INITIALISED,
    after=(
        *CORRECT_VALUES,
        the_weights_are_registered_and_trainable,
        the_gradients_of_the_weights_are_right,
    ),
    on=at_least(tokens=3),
    limit=1,
    hint="every weight must be a parameter of the module: nn.Parameter, nn.Linear, nn.ModuleList",
)
def a_training_step_moves_every_weight(context: LiveContext) -> None:
    """A step of gradient descent moves every weight by its gradient, and the output follows."""
    adapter = construct(context.harness.subject, context.contract, context.case)
    adapter.set(context.parameters)
    exact = context.compute_once(compute_exact_gradients)
    rate = 0.25 / max(float(gradient.abs().max()) for gradient in exact.values.values())
    adapter.descend(context.x, context.cotangent, context.mask, rate)
    moved = adapter.read()
    for name, before in context.parameters.items():
        limit = exact.compute_tolerance(name)
        own = 2 * PRECISIONS[context.case.dtype].u * before.abs()
        slack = Tolerance(rate * limit.exact + own, rate * limit.float32 + own)
        where = f"{context.contract.describe_parameter(name)} after the step"
        context.assert_close(getattr(moved, name), before - rate * exact.values[name], slack, where)
    # Not by what is read but by what it does: these are the weights that the output is made with.
    returned = adapter.forward(context.x, context.mask, CallOptions())
    context.check_form(returned, context.x)
    answer = tuple(output.double() for output in returned.outputs)
    context.assert_matches_oracle(answer, context.compute_expected(parameters=moved))


def _is_only_float32_exact(context: CaseContext) -> bool:
    """Whether the output is right, but some step computes in float32."""
    error, allowed = (context.output - context.expected.outputs[0]).abs(), context.tolerance
    return bool((error > allowed.exact).any() and (error <= allowed.float32).all())


ALL = (
    the_gradient_of_the_input_is_right,
    the_gradients_of_the_weights_are_right,
    every_weight_gets_a_gradient,
    the_gradient_predicts_a_small_step,
    the_gradients_predict_a_small_step_of_the_weights,
    a_training_step_moves_every_weight,
)
