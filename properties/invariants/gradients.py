"""Training works: the gradients are those of the equation, and none is cut off."""

import torch
from torch import Tensor

from properties import comparison
from properties.case import Content
from properties.contract import Trait
from properties.invariants.contract import FORM
from properties.invariants.values import it_equals_the_equation
from properties.materials import normal, rounded
from properties.oracle import ExactGradients
from properties.preparing import at_least, with_values
from properties.property import Claims, Group
from properties.tolerance import Allowed
from properties.trial import Trial
from properties.violation import Kind, Violation

claims = Claims(Group.GRADIENTS, FORM)
RIGHT = (it_equals_the_equation,)
T = Trait
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
    step = 1e-5
    ahead, behind = trial.outputs(trial.x + step * direction, trial.x - step * direction)
    slope = ((ahead - behind) / (2 * step) * trial.cotangent).sum().reshape(1)
    gradient = trial.once(own_gradients).get("x")
    if gradient is None:
        raise Violation(Kind.VALUE, "a gradient", "none reaches it", "x")
    predicted = (gradient.double() * direction).sum().reshape(1)
    size = (exact_gradients(trial).scales["x"] * direction.abs()).sum().reshape(1)
    # The third derivative contributes step² times a moderate multiple of the natural size.
    allowed = Allowed(1e-6 * size, 1e-6 * size)
    comparison.agree(predicted, slope, allowed, "change predicted by the gradient")


def _only_as_exact_as_float32(trial: Trial) -> bool:
    """Whether the output is right, but some step computes in float32."""
    error, allowed = (trial.output - trial.expected.outputs[0]).abs(), trial.allowed
    return bool((error > allowed.exact).any() and (error <= allowed.float32).all())


ALL = (
    the_gradient_of_the_input_is_right,
    the_gradients_of_the_weights_are_right,
    every_weight_gets_a_gradient,
    the_gradient_predicts_a_small_step,
)
