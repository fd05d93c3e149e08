"""The attention weights are a softmax: positive, one in sum, and they average the values.

Most of these are judged from the output alone, through parameters chosen so that the output shows
the weights (`properties.harness.tomography`); a module need not return its weights.
"""

from dataclasses import replace

import torch
from torch import Tensor

from properties.case import Case, MaskForm
from properties.cases.case_transforms import with_values
from properties.contract import Capability
from properties.families.contract import FORM
from properties.families.parameter_transforms import replace_parameters, zero_parameters
from properties.harness import tomography
from properties.harness.harness import CaseContext
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions
from properties.tolerance import Tolerance
from reference import merge_heads

family_property = PropertyFamily(PropertyGroup.WEIGHTS, FORM)
C = Capability
UNMASKED = with_values(mask_form=MaskForm.NONE)
SUM_HINT = "softmax over the keys (the last axis), and nothing between softmax and values"


@family_property(C.ATTENTION, C.TOKENS, on=UNMASKED, limit=3, hint=SUM_HINT)
def equal_tokens_get_equal_outputs(trial: CaseContext) -> None:
    """A sequence of equal tokens gives everywhere what one of them gives alone."""
    x = trial.x[:, :1].expand_as(trial.x).contiguous()
    alone = trial.compute_expected(trial.x[:, :1])
    wanted = alone.outputs[0].expand_as(trial.output)
    trial.assert_close(
        trial.run(x, how=CallOptions())[0], wanted, trial.compute_expected(x).tolerances[0]
    )


def _double_context_length(case: Case) -> Case | None:
    return replace(case, context_length=2 * case.tokens, mask_form=MaskForm.NONE)


@family_property(C.ATTENTION, C.TOKENS, on=_double_context_length, limit=1, hint=SUM_HINT)
def repeating_every_token_changes_nothing(trial: CaseContext) -> None:
    """With every token written twice, the last output stays as it was."""
    doubled = trial.x.repeat_interleave(2, dim=1)
    last = trial.run(doubled, how=CallOptions())[0][:, -1]
    allowed = trial.tolerance[:, -1] + trial.compute_expected(doubled).tolerances[0][:, -1]
    trial.assert_unchanged(last, trial.output[:, -1], allowed)


@family_property(C.ATTENTION, C.PROJECTED, C.TOKENS, limit=3, hint=SUM_HINT)
def the_weights_sum_to_one(trial: CaseContext) -> None:
    """When all values are equal, every output is that value: the weights sum to one."""
    x = trial.x.clone()
    x[..., 0] = 1
    column = torch.zeros_like(trial.parameters.W_v)
    column[:, 0] = trial.parameters.W_v[:, 0]
    parameters = replace_parameters(trial, W_v=column)
    expected = trial.compute_expected(x, parameters)
    value = merge_heads(expected.exact.value)
    if parameters.W_o is not None:
        value = value @ parameters.W_o.mT + (0 if parameters.b_o is None else parameters.b_o)
    trial.assert_close(trial.run(x, parameters)[0], value, expected.tolerances[0])


@family_property(
    C.ATTENTION, C.PROJECTED, C.TOKENS, limit=3, hint="an average lies between extremes"
)
def the_output_lies_between_the_values(trial: CaseContext) -> None:
    """Before the output projection, every number lies between the values that it averages."""
    parameters = replace_parameters(trial, **_make_identity_projection(trial))
    expected = trial.compute_expected(parameters=parameters)
    output = trial.run(parameters=parameters)[0]
    value = merge_heads(expected.exact.value)
    low, high = value.amin(1, keepdim=True), value.amax(1, keepdim=True)
    if trial.contract.has(C.CAUSAL):
        low, high = value.cummin(1).values, value.cummax(1).values
    inside = output.clamp(low.expand_as(output), high.expand_as(output))
    trial.assert_close(output, inside, expected.tolerances[0])


def _make_identity_projection(trial: CaseContext) -> dict[str, Tensor]:
    identity = torch.eye(trial.case.d_out, dtype=torch.float64)
    return {"W_o": identity, **zero_parameters(trial, "b_o")}


@family_property(
    C.ATTENTION,
    C.PROJECTED,
    C.TOKENS,
    limit=3,
    hint="equal scores give equal weights: is there something besides q·k in the scores?",
)
def without_queries_the_values_are_averaged_evenly(trial: CaseContext) -> None:
    """When all queries are zero, every visible token counts the same."""
    parameters = replace_parameters(trial, **zero_parameters(trial, "W_q", "b_q"))
    trial.assert_matches_oracle(
        trial.run(parameters=parameters), trial.compute_expected(parameters=parameters)
    )


@family_property(
    C.ATTENTION,
    C.PROJECTED,
    C.TOKENS,
    limit=3,
    hint="after the softmax everything is linear: no activation, no normalisation",
)
def the_output_is_linear_in_the_values(trial: CaseContext) -> None:
    """Twice the values, twice the output: the values only go through sums."""
    plain = zero_parameters(trial, "b_v", "b_o")
    once = replace_parameters(trial, **plain)
    twice = replace_parameters(trial, **plain, W_v=-2 * trial.parameters.W_v)
    allowed = trial.compute_expected(parameters=twice).tolerances[0]
    single = trial.run(parameters=once)[0]
    trial.assert_unchanged(trial.run(parameters=twice)[0], -2 * single, allowed)


@family_property(
    C.ATTENTION,
    C.PROJECTED,
    C.TOKENS,
    limit=3,
    hint="is the input (or something else) added to the output?",
)
def without_values_nothing_is_left(trial: CaseContext) -> None:
    """When all values are zero, the output is zero, up to the output layer's bias."""
    parameters = replace_parameters(trial, **zero_parameters(trial, "W_v", "b_v"))
    output = trial.run(parameters=parameters)[0]
    bias = torch.zeros(trial.case.d_out) if parameters.b_o is None else parameters.b_o
    allowed = trial.compute_expected(parameters=parameters).tolerances[0]
    trial.assert_close(output, bias.expand_as(output).to(torch.float64), allowed)


@family_property(
    C.OUTPUT_BIAS, C.MODULE, limit=3, hint="is the output layer applied once, and last?"
)
def the_output_bias_shifts_the_output(trial: CaseContext) -> None:
    """Adding to the output layer's bias adds just that to every output."""
    assert trial.parameters.b_o is not None
    shifted = replace_parameters(trial, b_o=trial.parameters.b_o + 1)
    allowed = trial.tolerance + trial.compute_expected(parameters=shifted).tolerances[0]
    trial.assert_unchanged(trial.run(parameters=shifted)[0], trial.output + 1, allowed)


@family_property(
    C.ATTENTION,
    C.BIAS,
    C.MODULE,
    on=with_values(bias=True),
    limit=3,
    hint="a constant added to a row of scores cancels in a softmax over the keys",
)
def a_constant_added_to_all_keys_changes_nothing(trial: CaseContext) -> None:
    """Adding the same vector to every key leaves the output unchanged."""
    assert trial.parameters.b_k is not None
    shifted = replace_parameters(trial, b_k=trial.parameters.b_k + 1)
    allowed = trial.tolerance + trial.compute_expected(parameters=shifted).tolerances[0]
    trial.assert_unchanged(trial.run(parameters=shifted)[0], trial.output, allowed)


@family_property(
    *tomography.REQUIRED_CAPABILITIES, on=tomography.fit_for_recovery, limit=3, hint=SUM_HINT
)
def the_weights_are_a_softmax_of_the_scaled_scores(trial: CaseContext) -> None:
    """The weights it uses are softmax(q·k / √head_dim) over the visible keys, in every head."""
    seen = trial.compute_once(tomography.recover_weights)
    trial.assert_close(seen.weights, seen.expected, seen.tolerance, "weights")


@family_property(
    *tomography.REQUIRED_CAPABILITIES, on=tomography.fit_for_recovery, limit=3, hint=SUM_HINT
)
def the_weights_are_never_negative(trial: CaseContext) -> None:
    """No attention weight is negative, and those of every query sum to one."""
    seen = trial.compute_once(tomography.recover_weights)
    trial.assert_close(seen.weights, seen.weights.clamp_min(0), seen.tolerance, "weights")
    total = Tolerance(seen.tolerance.exact.sum(-1), seen.tolerance.float32.sum(-1))
    sums = seen.weights.sum(-1)
    trial.assert_close(sums, torch.ones_like(sums), total, "sum of weights")


@family_property(
    *tomography.REQUIRED_CAPABILITIES,
    C.CAUSAL,
    on=tomography.fit_for_recovery,
    limit=3,
    hint="fill what is above the diagonal of the scores with -inf, before the softmax",
)
def hidden_tokens_get_no_weight(trial: CaseContext) -> None:
    """The weight of every later token is zero."""
    seen = trial.compute_once(tomography.recover_weights)
    future = seen.weights.triu(1)
    trial.assert_close(future, torch.zeros_like(future), seen.tolerance, "weights")


@family_property(C.WEIGHTS, C.MODULE, limit=3, hint="return the weights after the softmax")
def the_returned_weights_are_those_used(trial: CaseContext) -> None:
    """The returned weights, applied to the values, give the returned output."""
    value, p = trial.expected.exact.value, trial.parameters
    output = merge_heads(trial.answer[1] @ value)
    if p.W_o is not None:
        output = output @ p.W_o.mT + (0 if p.b_o is None else p.b_o)
    trial.assert_close(trial.output, output, trial.tolerance + trial.tolerance)


@family_property(C.WEIGHTS, limit=3, hint=SUM_HINT)
def the_rows_of_the_returned_weights_sum_to_one(trial: CaseContext) -> None:
    """Every row of the returned weights sums to one, and no weight is negative."""
    for weights, allowed, name in zip(
        trial.answer, trial.expected.tolerances, trial.output_names, strict=True
    ):
        if name == "output":
            continue
        sums = weights.sum(-1)
        total = Tolerance(allowed.exact.sum(-1), allowed.float32.sum(-1))
        trial.assert_close(sums, torch.ones_like(sums), total, f"sum of {name}")
        trial.assert_close(weights, weights.clamp_min(0), allowed, name)


ALL = (
    equal_tokens_get_equal_outputs,
    repeating_every_token_changes_nothing,
    the_weights_sum_to_one,
    the_output_lies_between_the_values,
    without_queries_the_values_are_averaged_evenly,
    the_output_is_linear_in_the_values,
    without_values_nothing_is_left,
    the_output_bias_shifts_the_output,
    a_constant_added_to_all_keys_changes_nothing,
    the_weights_are_a_softmax_of_the_scaled_scores,
    the_weights_are_never_negative,
    hidden_tokens_get_no_weight,
    the_returned_weights_are_those_used,
    the_rows_of_the_returned_weights_sum_to_one,
)
