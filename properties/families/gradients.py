"""Training works: the gradients are those of the equation, and every weight gets one."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from headcheck.properties import comparison
from headcheck.properties.bounds.gradients import ExactGradients
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_tensors import draw_normal, round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.parameter_transforms import replace_parameters
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.case_context import CaseContext, NamedGradients
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import InputContent
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind
from headcheck.reference import Parameters

family_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
CORRECT_VALUES = (it_equals_the_equation,)
LAYERS = (C.PROJECTED, C.TOKENS, C.MODULE)
STEP_SIZE = 1e-5
ATTENDING = ("W_q", "W_k", "b_q")
"""the parameters on which the attention weights depend; the keys' bias does not change them"""
GRADIENT_SIZES = (
    {"batch": 1, "tokens": 70, "d_in": 3, "heads": 3, "head_dim": 2, "sharpness": 2},
    {"batch": 1, "tokens": 140, "d_in": 3, "heads": 1, "head_dim": 2, "sharpness": 2},
    {"batch": 33, "tokens": 5, "d_in": 4, "heads": 17, "head_dim": 2, "sharpness": 2},
    {"batch": 1, "tokens": 6, "d_in": 7, "heads": 1, "head_dim": 130, "sharpness": 2},
    {"batch": 9, "tokens": 17, "d_in": 33, "heads": 6, "head_dim": 8, "sharpness": 2},
)
MANY_TOKENS = {"batch": 1, "tokens": 600, "d_in": 2, "heads": 1, "head_dim": 2, "sharpness": 2}
LOSS_FACTORS = (2.0**20, 2.0**-20)
CUT_HINT = "what changes slopes: detach(), .data, clamp, abs, hook, backward?"
LARGE_SCORES = 1e4
UNUSED_HINT = "is it used, and not detached on the way to the output?"


def compute_exact_gradients(context: CaseContext) -> ExactGradients:
    """Return the oracle's gradients for the case's own cotangent."""
    return context.compute_exact_gradients(context.cotangent)


def compute_submission_gradients(context: CaseContext) -> dict[str, Tensor | None]:
    """Return the submission's gradients for the same cotangent."""
    return context.compute_gradients(context.cotangent)


def _get_gradients(context: CaseContext) -> tuple[dict[str, Tensor | None], ExactGradients]:
    own = context.compute_once(compute_submission_gradients)
    return own, context.derive(compute_exact_gradients)


def _assert_gradients_close(context: CaseContext, names: list[str]) -> None:
    own, exact = _get_gradients(context)
    assert_close_to_exact(context, own, exact, names)


def assert_close_to_exact(
    context: CaseContext, own: NamedGradients, exact: ExactGradients, names: Iterable[str]
) -> None:
    """Raise Violation unless the gradients with these names are those of the equation."""
    for name in names:
        got = own.get(name)
        where = describe_learner(context, name)
        if got is None and not bool(exact.values[name].any()):
            continue  # a single token has a weight of one, for any query and key
        if got is None:
            raise make_cut(where)
        tolerance = exact.compute_tolerance(name)
        context.assert_close(got.double(), exact.values[name], tolerance, f"gradient of {where}")


def assert_gradients_right_with(context: CaseContext, parameters: Parameters) -> None:
    """Raise Violation unless all gradients are those of the equation with other parameters."""
    own = context.compute_gradients(context.cotangent, parameters=parameters)
    exact = context.compute_exact_gradients(context.cotangent, parameters=parameters)
    assert_close_to_exact(context, own, exact, ("x", *(name for name, _ in parameters.items())))


def describe_learner(context: CaseContext, name: str) -> str:
    """Name a tensor that gets a gradient in the submission's terms; some functions have no x."""
    if name != "x":
        return context.contract.describe_parameter(name)
    return "query, key and value, which are one tensor" if context.contract.has(C.ROLES) else "x"


def make_cut(where: str) -> Violation:
    """Return the violation for a weight that gets no gradient at all."""
    told = "a gradient", "none reaches it", where
    return Violation(ViolationKind.VALUE, *told, hint=UNUSED_HINT, reason=Reason.NO_GRADIENT)


@family_property(C.TOKENS, after=CORRECT_VALUES, limit=6, hint=CUT_HINT)
def the_gradient_of_the_input_is_right(context: CaseContext) -> None:
    """The gradient of the input equals the gradient of the equation."""
    _assert_gradients_close(context, ["x"])


@family_property(C.PROJECTED, C.TOKENS, after=CORRECT_VALUES, limit=6, hint=CUT_HINT)
def the_gradients_of_the_weights_are_right(context: CaseContext) -> None:
    """The gradient of every weight equals the gradient of the equation."""
    names = {name for mapping in context.contract.mappings for name in mapping.holds}
    _assert_gradients_close(context, [n for n, _ in context.parameters.items() if n in names])


@family_property(C.PROJECTED, C.MODULE, on=at_least(tokens=3), limit=2, hint=CUT_HINT)
def every_weight_gets_a_gradient(context: CaseContext) -> None:
    """Every weight that changes the output gets a gradient, so that training changes it."""
    own, exact = _get_gradients(context)
    for name, _ in context.parameters.items():
        got, size = own.get(name), exact.scales[name]
        # A gradient that cancels leaves rounding errors, which are zero by chance only.
        has_effect = bool((exact.values[name].abs() > 1e-6 * size).any())
        if has_effect and (got is None or not bool((got.abs() > 1e-9 * size).any())):
            where = context.contract.describe_parameter(name)
            raise Violation(ViolationKind.VALUE, "a gradient other than zero", "none", where)


@family_property(
    C.TOKENS,
    after=(the_gradient_of_the_input_is_right,),
    on=at_least(tokens=3, batch=2, heads=2),
    limit=2,
    hint="is anything in the backward random, such as an order?",
    usual=0,
)
def the_same_backward_gives_the_same_gradients(context: LiveContext) -> None:
    """Two backward passes of the same numbers give exactly the same gradients."""
    context.adapter.set(context.parameters)
    one, other = (context.adapter.vjp(context.x, context.cotangent, context.mask) for _ in range(2))
    for name, first in one.items():
        if first is not None:
            assert_same_again(first, other.get(name), context.contract.describe_parameter(name))


def assert_same_again(first: Tensor | None, again: Tensor | None, name: str) -> None:
    """Raise Violation unless two gradients are exactly the same."""
    if first is None or again is None or not torch.equal(first, again):
        where = f"gradient of {name}"
        raise Violation(ViolationKind.VALUE, "exactly the same again", "other numbers", where)


@family_property(
    C.TOKENS,
    C.STATELESS,
    after=(the_gradient_of_the_input_is_right,),
    on=at_least(tokens=3),
    limit=2,
    hint="does it matter in the code which tensors require a gradient?",
)
def each_argument_gets_its_gradient_alone(context: LiveContext) -> None:
    """An argument also gets its gradient if no other argument requires one."""
    _, exact = _get_gradients(context)
    context.adapter.set(context.parameters)
    for argument in context.contract.call:
        own = context.adapter.vjp(context.x, context.cotangent, context.mask, only=argument)
        held = {h for m in context.contract.mappings if m.path == argument for h in m.holds}
        assert_close_to_exact(context, own, exact, held or {argument})


@family_property(
    *LAYERS,
    C.WIDTHS,
    sizes=GRADIENT_SIZES,
    after=(the_gradients_of_the_weights_are_right,),
    hint="does something in the code work for small sizes only?",
    usual=2,
)
def gradients_are_right_at_every_size(context: CaseContext) -> None:
    """Long sequences, many heads and wide ones have the gradients of the equation, too."""
    _assert_gradients_close(context, ["x", *(n for n, _ in context.parameters.items())])


@family_property(
    C.FEATURES,  # a state goes through the tokens, and is kept from part to part
    C.CAUSAL,
    C.TOKENS,
    C.PROJECTED,
    C.WIDTHS,
    C.MODULE,
    sizes=(MANY_TOKENS,),
    after=(gradients_are_right_at_every_size,),
    hint="is a state detached somewhere on the way through the tokens?",
)
def gradients_reach_back_over_hundreds_of_tokens(context: CaseContext) -> None:
    """Among hundreds of tokens, the first get gradients even from the last output."""
    _assert_gradients_close(context, ["x", *(n for n, _ in context.parameters.items())])


@family_property(
    C.WEIGHTS,
    C.PROJECTED,
    C.MODULE,
    after=CORRECT_VALUES,
    on=at_least(tokens=3),
    limit=2,
    hint=CUT_HINT,
)
def the_gradients_of_the_returned_weights_are_right(context: CaseContext) -> None:
    """A loss on the returned weights has the gradients of the equation."""
    weights = context.expected.outputs[1]
    cotangent = round_to_dtype(draw_normal(context.case, "x2", *weights.shape), context.case)
    own = context.compute_gradients(cotangent, output=1)
    exact = context.compute_exact_gradients(cotangent, output=1)
    names = ("x", *(n for n, _ in context.parameters.items() if n in ATTENDING))
    assert_close_to_exact(context, own, exact, names)


@family_property(
    *LAYERS,
    after=(the_gradients_of_the_weights_are_right,),
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="does anything depend on the size of the gradients?",
)
def gradients_grow_with_the_loss(context: CaseContext) -> None:
    """Gradients are proportional to the loss, even if it is a million times as large or small."""
    names = ("x", *(n for n, _ in context.parameters.items()))
    for factor in LOSS_FACTORS:
        cotangent = factor * context.cotangent
        own, exact = (
            context.compute_gradients(cotangent),
            context.compute_exact_gradients(cotangent),
        )
        assert_close_to_exact(context, own, exact, names)


SMALL_STEPS = compose(
    at_least(tokens=3),
    with_values(dtype="float64", sharpness=1, content=InputContent.NORMAL),
)


@family_property(C.TOKENS, on=SMALL_STEPS, dtypes=("float64",), limit=2, hint=CUT_HINT)
def the_gradient_predicts_a_small_step(context: CaseContext) -> None:
    """A small step changes the output by as much as the gradient says."""
    if _is_only_float32_exact(context):
        return  # its rounding, divided by the step, would hide the slope
    direction = round_to_dtype(draw_normal(context.case, "x2", *context.x.shape), context.case)
    step = STEP_SIZE * direction
    ahead, behind = context.run_stacked(context.x + step, context.x - step)
    _assert_gradients_predict_change(context, {"x": direction}, ahead - behind)


@family_property(*LAYERS, on=SMALL_STEPS, dtypes=("float64",), limit=1, hint=CUT_HINT)
def the_gradients_predict_a_small_step_of_the_weights(context: CaseContext) -> None:
    """A small step of all weights changes the output by as much as their gradients say."""
    if _is_only_float32_exact(context):
        return  # its rounding, divided by the step, would hide the slope
    here = dict(context.parameters.items())
    directions = dict(context.other_parameters.items())
    ahead, behind = (
        context.run(parameters=Parameters(**{n: here[n] + step * directions[n] for n in here}))[0]
        for step in (STEP_SIZE, -STEP_SIZE)
    )
    _assert_gradients_predict_change(context, directions, ahead - behind)


@family_property(
    C.SOFTCAP,
    *LAYERS,
    C.STABLE,
    after=(the_gradients_of_the_weights_are_right,),
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="exponentials of large numbers overflow, and ∞ / ∞ is NaN",
)
def scores_far_beyond_their_limit_have_finite_gradients(context: CaseContext) -> None:
    """Scores far beyond the limit leave all gradients finite."""
    queries = LARGE_SCORES * context.parameters.W_q
    assert_gradients_right_with(context, replace_parameters(context, W_q=queries))


def _assert_gradients_predict_change(
    context: CaseContext, directions: Mapping[str, Tensor], change: Tensor
) -> None:
    """Raise Violation unless the gradients predict how the output changes over two small steps."""
    own, exact = _get_gradients(context)
    slope = (change / (2 * STEP_SIZE) * context.cotangent).sum().reshape(1)
    predicted, size = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for name, direction in directions.items():
        gradient = own.get(name)
        if gradient is not None:
            predicted += (gradient.double() * direction).sum()
        size += (exact.scales[name] * direction.abs()).sum()
    # The third derivative contributes STEP_SIZE² times a moderate multiple of `size`.
    tolerance = Tolerance(1e-6 * size, 1e-6 * size)
    cut = [name for name in directions if own.get(name) is None]
    if cut and bool((predicted - slope).abs() > tolerance.exact):
        where = describe_learner(context, cut[0])
        raise make_cut(where)
    comparison.check_close(predicted, slope, tolerance, "change predicted by the gradient")


def _is_only_float32_exact(context: CaseContext) -> bool:
    """Whether the output is right, but some step computes in float32."""
    error, tolerance = (context.output - context.expected.outputs[0]).abs(), context.tolerance
    return bool((error > tolerance.exact).any() and (error <= tolerance.float32).all())
