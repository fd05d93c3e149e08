"""Training works: the gradients are those of the equation, and none is cut off."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from properties import comparison
from properties.case import Content
from properties.cases.case_tensors import normal, parameters_of, rounded
from properties.cases.case_transforms import at_least, with_values
from properties.contract import Trait
from properties.families.contract import FORM, the_weights_are_registered_and_trainable
from properties.families.values import it_equals_the_equation
from properties.harness.harness import Trial
from properties.harness.module_adapter import construct
from properties.oracle import ExactGradients
from properties.property import Claims, Group
from properties.subject import How
from properties.tolerance import PRECISIONS, Allowed
from properties.violation import Kind, Violation
from reference import Parameters

claims = Claims(Group.GRADIENTS, FORM)
RIGHT = (it_equals_the_equation,)
T = Trait
STEP = 1e-5
CUT = (
    "is there a detach(), .data, .item(), torch.no_grad(), a new tensor made of old numbers, or a "
    "change in place?"
)


def exact_gradients(trial: Trial) -> ExactGradients:
    """The oracle's gradients for the case's own cotangent."""
    return trial.exact_gradients(trial.cotangent)


def own_gradients(trial: Trial) -> dict[str, Tensor | None]:
    """The submission's gradients for the same cotangent."""
    return trial.gradients(trial.cotangent)


def _must_agree(trial: Trial, names: list[str]) -> None:
    own, exact = trial.once(own_gradients), trial.once(exact_gradients)
    for name in names:
        got = own.get(name)
        where = name if name == "x" else trial.contract.called(name)
        if got is None and not bool(exact.values[name].any()):
            continue  # one token has a weight of one, whatever its query and key are
        if got is None:
            raise Violation(Kind.VALUE, "a gradient", "none reaches it", where)
        trial.must_equal(
            got.to(torch.float64), exact.values[name], exact.allowed(name), f"gradient of {where}"
        )


@claims(T.TOKENS, after=RIGHT, limit=6, hint=CUT)
def the_gradient_of_the_input_is_right(trial: Trial) -> None:
    """The gradient that reaches the input equals that of the equation."""
    _must_agree(trial, ["x"])


@claims(T.PROJECTED, T.TOKENS, after=RIGHT, limit=6, hint=CUT)
def the_gradients_of_the_weights_are_right(trial: Trial) -> None:
    """The gradient of every weight equals that of the equation."""
    named = trial.contract.slots
    names = {n for slot in named for n in slot.holds}
    present = dict(trial.parameters.items())
    _must_agree(trial, [n for n in present if n in names])


@claims(T.PROJECTED, T.MODULE, on=at_least(tokens=3), limit=2, hint=CUT)
def every_weight_gets_a_gradient(trial: Trial) -> None:
    """Every weight that changes the output gets a gradient, so that all of it is trained."""
    own, exact = trial.once(own_gradients), trial.once(exact_gradients)
    for name, _ in trial.parameters.items():
        got, wanted = own.get(name), exact.values[name]
        size = exact.scales[name]
        # What is left of a gradient that cancels is rounding, which is zero by chance only.
        if bool((wanted.abs() > 1e-6 * size).any()) and (
            got is None or not bool((got.abs() > 1e-9 * size).any())
        ):
            expected, where = "a gradient other than zero", trial.contract.called(name)
            raise Violation(Kind.VALUE, expected, "none", where)


@claims(
    T.TOKENS,
    on=with_values(dtype="float64", sharpness=1, content=Content.NORMAL),
    dtypes=("float64",),
    limit=2,
    hint=CUT,
)
def the_gradient_predicts_a_small_step(trial: Trial) -> None:
    """A small step changes the output by as much as the gradient says."""
    if _only_as_exact_as_float32(trial):
        return  # its rounding, divided by the step, would hide the slope
    direction = rounded(normal(trial.case, "x2", *trial.x.shape), trial.case)
    ahead, behind = trial.outputs(trial.x + STEP * direction, trial.x - STEP * direction)
    _must_predict(trial, {"x": direction}, ahead - behind)


@claims(
    T.TOKENS,
    T.PROJECTED,
    T.MODULE,
    on=with_values(dtype="float64", sharpness=1, content=Content.NORMAL),
    dtypes=("float64",),
    limit=1,
    hint=CUT,
)
def the_gradients_predict_a_small_step_of_the_weights(trial: Trial) -> None:
    """A small step of all weights changes the output by as much as their gradients say."""
    if _only_as_exact_as_float32(trial):
        return  # its rounding, divided by the step, would hide the slope
    here = dict(trial.parameters.items())
    other = parameters_of(replace(trial.case, seed=trial.case.seed + 1), trial.contract)
    directions = dict(other.items())
    ahead, behind = (
        trial.run(parameters=Parameters(**{n: here[n] + step * directions[n] for n in here}))[0]
        for step in (STEP, -STEP)
    )
    _must_predict(trial, directions, ahead - behind)


def _must_predict(trial: Trial, directions: Mapping[str, Tensor], change: Tensor) -> None:
    """Raises Violation unless the gradients say how the output changes over two small steps."""
    own, exact = trial.once(own_gradients), trial.once(exact_gradients)
    slope = (change / (2 * STEP) * trial.cotangent).sum().reshape(1)
    predicted, size = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for name, direction in directions.items():
        gradient = own.get(name)
        if gradient is not None:
            predicted += (gradient.double() * direction).sum()
        size += (exact.scales[name] * direction.abs()).sum()
    # The third derivative contributes STEP² times a moderate multiple of the natural size.
    allowed = Allowed(1e-6 * size, 1e-6 * size)
    cut = [name for name in directions if own.get(name) is None]
    if cut and bool((predicted - slope).abs() > allowed.exact):
        where = "x" if cut[0] == "x" else trial.contract.called(cut[0])
        raise Violation(Kind.VALUE, "a gradient", "none reaches it", where)
    comparison.agree(predicted, slope, allowed, "change predicted by the gradient")


@claims(
    T.TOKENS,
    T.PROJECTED,
    T.MODULE,
    T.INITIALISED,
    after=(
        *RIGHT,
        the_weights_are_registered_and_trainable,
        the_gradients_of_the_weights_are_right,
    ),
    on=at_least(tokens=3),
    limit=1,
    hint="every weight must be a parameter of the module: nn.Parameter, nn.Linear, nn.ModuleList",
)
def a_training_step_moves_every_weight(trial: Trial) -> None:
    """A step of gradient descent moves every weight by its gradient, and the output follows."""
    instance = construct(trial.bench.subject, trial.contract, trial.case)
    instance.set(trial.parameters)
    exact = trial.once(exact_gradients)
    rate = 0.25 / max(float(gradient.abs().max()) for gradient in exact.values.values())
    instance.descend(trial.x, trial.cotangent, trial.mask, rate)
    moved = instance.read()
    for name, before in trial.parameters.items():
        limit = exact.allowed(name)
        own = 2 * PRECISIONS[trial.case.dtype].u * before.abs()
        slack = Allowed(rate * limit.exact + own, rate * limit.float32 + own)
        where = f"{trial.contract.called(name)} after the step"
        trial.must_equal(getattr(moved, name), before - rate * exact.values[name], slack, where)
    # Not by what is read but by what it does: these are the weights that the output is made with.
    returned = instance.forward(trial.x, trial.mask, How())
    trial.check_form(returned, trial.x)
    answer = tuple(output.double() for output in returned.outputs)
    trial.must_match(answer, trial.expect(parameters=moved))


def _only_as_exact_as_float32(trial: Trial) -> bool:
    """Whether the output is right, but some step computes in float32."""
    error, allowed = (trial.output - trial.expected.outputs[0]).abs(), trial.allowed
    return bool((error > allowed.exact).any() and (error <= allowed.float32).all())


ALL = (
    the_gradient_of_the_input_is_right,
    the_gradients_of_the_weights_are_right,
    every_weight_gets_a_gradient,
    the_gradient_predicts_a_small_step,
    the_gradients_predict_a_small_step_of_the_weights,
    a_training_step_moves_every_weight,
)
