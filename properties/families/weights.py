"""The attention weights are a softmax: they are positive, sum to one, and average the values.

Most of these properties are checked only by the output, with parameters under which the output
shows the weights (`properties.harness.tomography`): a module need not return its weights.
"""

import functools
import itertools
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties import comparison
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import assert_only_bias_left, assert_right_with
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.hidden import hide_everything_from_some
from headcheck.properties.families.parameter_transforms import (
    ASKING,
    give_equal_values,
    make_identity_projection,
    project_output,
    replace_parameters,
    zero_parameters,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness import tomography
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import InputContent, MaskForm
from headcheck.properties.violations.violation import Violation, ViolationKind
from headcheck.reference import merge_heads

family_property = PropertyFamily(PropertyGroup.WEIGHTS, FORM)
NEEDS = (C.ATTENTION, C.PROJECTED, C.TOKENS)
UNMASKED = with_values(mask_form=MaskForm.NONE)
VALUE_FACTORS = (2.0**24, 2.0**-24)
GRAD_MODES = ("no_grad", "grad")
MODES = ((False, "evaluation"), (True, "training"))
SUM_HINT = "the weights of a query are a softmax over its keys: their sum is 1"


@family_property(
    C.FULL,
    C.TOKENS,
    C.PLACELESS,
    C.ANY_DISTANCE,
    on=compose(at_least(tokens=2), with_values(mask_form=MaskForm.NONE)),
    limit=3,
    hint="without a mask and without positions, no token is special",
)
def permuting_the_tokens_permutes_the_outputs(context: CaseContext) -> None:
    """Reordering the tokens reorders the outputs in the same way."""
    order = torch.arange(context.case.tokens).roll(1)
    moved = context.run(context.x[:, order])[0]
    context.assert_unchanged(moved, context.output[:, order], context.tolerance[:, order])


average_property = functools.partial(family_property, *NEEDS, limit=3)


@average_property(
    C.BARE,
    on=compose(
        at_least(tokens=2), with_values(mask_form=MaskForm.NONE, content=InputContent.NORMAL)
    ),
    hint="every token that is not hidden has a part in the output",
)
def what_may_be_seen_is_seen(context: CaseContext) -> None:
    """Changing a token changes its own output and every output that may attend to it."""
    # Without queries all visible tokens have the same weight, so that none is negligible.
    parameters = replace_parameters(context, **zero_parameters(context, *ASKING))
    base = context.run(parameters=parameters)[0]
    tolerance = context.compute_expected(parameters=parameters).tolerances[0]
    token = context.case.tokens // 2
    changed = context.x.clone()
    changed[:, token] += 2
    moved = context.run(changed, parameters)[0] - base
    tolerance = tolerance + context.compute_expected(changed, parameters).tolerances[0]
    for row in context.list_visible()[:, token].nonzero().flatten().tolist():
        expected = f"another token {token} changes this output"
        comparison.assert_differs(moved[:, row], tolerance[:, row], expected, f"output[:, {row}]")


@family_property(C.ATTENTION, C.TOKENS, C.CONSTANT_SUM, on=UNMASKED, limit=3, hint=SUM_HINT)
def equal_tokens_get_equal_outputs(context: CaseContext) -> None:
    """If all tokens are equal, every output is what the equation gives for one token."""
    x = context.x[:, :1].expand_as(context.x).contiguous()
    alone = context.compute_expected(context.x[:, :1])
    everywhere = alone.outputs[0].expand_as(context.output)
    output = context.run(x)[0]
    context.assert_close(output, everywhere, context.compute_expected(x).tolerances[0])


@family_property(
    C.ATTENTION,
    C.TOKENS,
    C.PLACELESS,
    C.ANY_DISTANCE,
    C.ANY_LENGTH,
    C.CONSTANT_SUM,
    on=lambda case: replace(case, context_length=2 * case.tokens, mask_form=MaskForm.NONE),
    limit=1,
    hint=SUM_HINT,
)
def repeating_every_token_changes_nothing(context: CaseContext) -> None:
    """Writing every token twice does not change the last output."""
    doubled = context.x.repeat_interleave(2, dim=1)
    last = context.run(doubled)[0][:, -1]
    tolerance = context.compute_expected(doubled).tolerances[0]
    both = context.tolerance[:, -1] + tolerance[:, -1]
    context.assert_unchanged(last, context.output[:, -1], both)


@average_property(C.BARE, C.NORMALISED, C.UNGATED, hint=SUM_HINT, essential=True)
def the_weights_sum_to_one(context: CaseContext) -> None:
    """When all values are equal, every output is that value: the weights sum to one."""
    x, parameters = give_equal_values(context)
    expected = context.compute_expected(x, parameters)
    value = project_output(context, parameters, expected.exact.value, x)
    context.assert_close(context.run(x, parameters)[0], value, expected.tolerances[0])


@average_property(C.BARE, C.NORMALISED, C.UNGATED, hint="an average lies between extremes")
def the_output_lies_between_the_values(context: CaseContext) -> None:
    """Before the output projection, every number lies between the values that it averages."""
    parameters = replace_parameters(context, **make_identity_projection(context))
    expected = context.compute_expected(parameters=parameters)
    output = context.run(parameters=parameters)[0]
    value = merge_heads(expected.exact.value)
    low, high = value.amin(1, keepdim=True), value.amax(1, keepdim=True)
    if context.contract.has(C.CAUSAL):
        low, high = value.cummin(1).values, value.cummax(1).values
    inside = output.clamp(low.expand_as(output), high.expand_as(output))
    context.assert_close(output, inside, expected.tolerances[0])


@average_property(
    C.UNBIASED, C.SOFTMAX, hint="with zero queries all scores are equal, and so are the weights"
)
def without_queries_the_values_are_averaged_evenly(context: CaseContext) -> None:
    """When all queries are zero, all visible tokens count the same, as in the equation."""
    parameters = replace_parameters(context, **zero_parameters(context, *ASKING))
    assert_right_with(context, parameters)


@average_property(
    C.BARE, C.PROPORTIONAL, hint="after the softmax there is nothing but weighted sums"
)
def the_output_is_linear_in_the_values(context: CaseContext) -> None:
    """Doubling the values doubles the output, because the values only go through sums."""
    plain = zero_parameters(context, "b_v", "b_o")
    once = replace_parameters(context, **plain)
    twice = replace_parameters(context, **plain, W_v=-2 * context.parameters.W_v)
    tolerance = context.compute_expected(parameters=twice).tolerances[0]
    single = context.run(parameters=once)[0]
    context.assert_unchanged(context.run(parameters=twice)[0], -2 * single, tolerance)


@family_property(
    *NEEDS,
    after=(it_equals_the_equation,),
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="does any step, such as a clamp, depend on the size of values?",
)
def large_and_small_values_are_averaged_alike(context: CaseContext) -> None:
    """Values of millions or millionths are averaged like values near one."""
    plain = zero_parameters(context, "b_v", "b_o")
    for factor in VALUE_FACTORS:
        changed = replace_parameters(context, **plain, W_v=factor * context.parameters.W_v)
        assert_right_with(context, changed)


@average_property(
    C.BARE, C.PROPORTIONAL, hint="nothing but weighted values, and an output bias, is in the output"
)
def without_values_nothing_is_left(context: CaseContext) -> None:
    """When all values are zero, the output is zero, up to the output layer's bias."""
    parameters = replace_parameters(context, **zero_parameters(context, "W_v", "b_v"))
    assert_only_bias_left(context, parameters)


@family_property(
    C.BARE,
    C.OUTPUT_BIAS,
    C.MODULE,
    limit=3,
    hint="the output layer comes last, once, and with its bias",
)
def the_output_bias_shifts_the_output(context: CaseContext) -> None:
    """A vector added to the output layer's bias is added to every output."""
    assert context.parameters.b_o is not None
    shifted = replace_parameters(context, b_o=context.parameters.b_o + 1)
    tolerance = context.tolerance + context.compute_expected(parameters=shifted).tolerances[0]
    context.assert_unchanged(context.run(parameters=shifted)[0], context.output + 1, tolerance)


@family_property(
    C.ATTENTION,
    C.BIAS,
    C.MODULE,
    C.DOT_PRODUCT,
    C.CONSTANT_SUM,
    on=with_values(bias=True),
    limit=3,
    hint="a constant added to a row of scores cancels in the softmax",
)
def a_constant_added_to_all_keys_changes_nothing(context: CaseContext) -> None:
    """Adding the same vector to every key leaves the output unchanged."""
    if context.parameters.b_k is None:
        return  # of the three layers that of the keys may be the one without a bias
    shifted = replace_parameters(context, b_k=context.parameters.b_k + 1)
    tolerance = context.tolerance + context.compute_expected(parameters=shifted).tolerances[0]
    context.assert_unchanged(context.run(parameters=shifted)[0], context.output, tolerance)


recovery_property = functools.partial(
    family_property, *tomography.REQUIRED_CAPABILITIES, on=tomography.fit_for_recovery, limit=3
)


@recovery_property(C.NORMALISED, C.SOFTMAX, hint=SUM_HINT)
def the_weights_are_a_softmax_of_the_scaled_scores(context: CaseContext) -> None:
    """The weights, as outputs show them, are the softmax of the scaled scores of visible keys."""
    recovered = context.compute_once(tomography.recover_weights)
    context.assert_close(recovered.weights, recovered.expected, recovered.tolerance, "weights")


@recovery_property(C.NORMALISED, C.PROPORTIONAL, hint=SUM_HINT)
def the_weights_are_never_negative(context: CaseContext) -> None:
    """The weights, as outputs show them, are not negative, and sum to one for every query."""
    recovered = context.compute_once(tomography.recover_weights)
    weights, tolerance = recovered.weights, recovered.tolerance
    context.assert_close(weights, weights.clamp_min(0), tolerance, "weights")
    _assert_sum_to_one(context, weights, tolerance, "weights")


def _assert_sum_to_one(
    context: CaseContext, weights: Tensor, tolerance: Tolerance, name: str
) -> None:
    sums = weights.sum(-1)
    total = tolerance.map(lambda limit: limit.sum(-1))
    context.assert_close(sums, torch.ones_like(sums), total, f"sum of {name}")


@recovery_property(
    C.CAUSAL, C.PROPORTIONAL, hint="the weights above the diagonal have to be exactly 0"
)
def hidden_tokens_get_no_weight(context: CaseContext) -> None:
    """The outputs show that no later token has any weight."""
    recovered = context.compute_once(tomography.recover_weights)
    future = recovered.weights.triu(1)
    context.assert_close(future, torch.zeros_like(future), recovered.tolerance, "weights")


@family_property(
    C.WEIGHTS, C.MODULE, limit=3, hint="return the weights by which the values are averaged"
)
def the_returned_weights_are_those_used(context: CaseContext) -> None:
    """The returned weights, applied to the values, give the returned output."""
    averages = context.answer[1] @ context.expected.exact.value
    output = project_output(context, context.parameters, averages, context.x)
    context.assert_close(context.output, output, context.tolerance + context.tolerance)


@family_property(C.WEIGHTS, C.NORMALISED, limit=3, hint=SUM_HINT)
def the_rows_of_the_returned_weights_sum_to_one(context: CaseContext) -> None:
    """Every row of the returned weights sums to one, and no weight is negative."""
    tolerances, names = context.expected.tolerances, context.output_names
    for weights, tolerance, name in zip(context.answer, tolerances, names, strict=True):
        if name != "output":
            _assert_sum_to_one(context, weights, tolerance, name)
            context.assert_close(weights, weights.clamp_min(0), tolerance, name)


@family_property(
    C.WEIGHTS_OPTION,
    C.TOKENS,
    on=with_values(dropout=0.0),
    limit=6,
    hint="both paths, with weights and without, come to one output",
)
def the_output_is_the_same_without_weights(context: LiveContext) -> None:
    """If no weights are requested, the output is the same, in every mode."""
    _assert_same_without_weights(context, context.mask)
    if context.mask is not None and context.contract.has(C.EMPTY_ROWS):
        _assert_same_without_weights(context, hide_everything_from_some(context))


def _assert_same_without_weights(context: LiveContext, mask: Tensor | None) -> None:
    """Raise Violation unless all ways to call the module with this mask give the same output."""
    expected, ways = context.compute_expected(mask=mask), itertools.product(GRAD_MODES, MODES)
    output = context.run_module(mask=mask)[0]
    for grad, (training, mode) in ways:
        options = CallOptions(manner="without weights", grad=grad, training=training)
        result = context.adapter.forward(context.x, mask, options)
        what = f"output without weights, in {mode}{', with gradients' * (grad == 'grad')}"
        if not result.outputs:
            raise Violation(ViolationKind.TYPE, "an output", result.form, what)
        other = result.outputs[0].double()
        context.assert_unchanged(other, output, expected.tolerances[0], what)
        comparison.assert_finite(output, "output with weights")
