"""The attention weights are a softmax: positive, one in sum, and they average the values.

Most of these are judged from the output alone, through parameters chosen so that the output shows
the weights (`properties.harness.tomography`); a module need not return its weights.
"""

from dataclasses import replace

import torch
from torch import Tensor

from properties.case import Case, MaskForm
from properties.cases.case_transforms import with_values
from properties.contract import Trait
from properties.families.contract import FORM
from properties.families.parameter_transforms import with_parameters, zeroed
from properties.harness import tomography
from properties.harness.harness import Trial
from properties.property import Claims, Group
from properties.subject import How
from properties.tolerance import Allowed
from reference import merge_heads

claims = Claims(Group.WEIGHTS, FORM)
T = Trait
UNMASKED = with_values(mask_form=MaskForm.NONE)
SUM_HINT = "softmax over the keys (the last axis), and nothing between softmax and values"


@claims(T.ATTENTION, T.TOKENS, on=UNMASKED, limit=3, hint=SUM_HINT)
def equal_tokens_get_equal_outputs(trial: Trial) -> None:
    """A sequence of equal tokens gives everywhere what one of them gives alone."""
    x = trial.x[:, :1].expand_as(trial.x).contiguous()
    alone = trial.expect(trial.x[:, :1])
    wanted = alone.outputs[0].expand_as(trial.output)
    trial.must_equal(trial.run(x, how=How())[0], wanted, trial.expect(x).allowed[0])


def _room_for_twice(case: Case) -> Case | None:
    return replace(case, context_length=2 * case.tokens, mask_form=MaskForm.NONE)


@claims(T.ATTENTION, T.TOKENS, on=_room_for_twice, limit=1, hint=SUM_HINT)
def repeating_every_token_changes_nothing(trial: Trial) -> None:
    """With every token written twice, the last output stays as it was."""
    doubled = trial.x.repeat_interleave(2, dim=1)
    last = trial.run(doubled, how=How())[0][:, -1]
    allowed = trial.allowed[:, -1] + trial.expect(doubled).allowed[0][:, -1]
    trial.must_stay(last, trial.output[:, -1], allowed)


@claims(T.ATTENTION, T.PROJECTED, T.TOKENS, limit=3, hint=SUM_HINT)
def the_weights_sum_to_one(trial: Trial) -> None:
    """When all values are equal, every output is that value: the weights sum to one."""
    x = trial.x.clone()
    x[..., 0] = 1
    column = torch.zeros_like(trial.parameters.W_v)
    column[:, 0] = trial.parameters.W_v[:, 0]
    parameters = with_parameters(trial, W_v=column)
    expected = trial.expect(x, parameters)
    value = merge_heads(expected.exact.value)
    if parameters.W_o is not None:
        value = value @ parameters.W_o.mT + (0 if parameters.b_o is None else parameters.b_o)
    trial.must_equal(trial.run(x, parameters)[0], value, expected.allowed[0])


@claims(T.ATTENTION, T.PROJECTED, T.TOKENS, limit=3, hint="an average lies between extremes")
def the_output_lies_between_the_values(trial: Trial) -> None:
    """Before the output projection, every number lies between the values that it averages."""
    parameters = with_parameters(trial, **_identity_projection(trial))
    expected = trial.expect(parameters=parameters)
    output = trial.run(parameters=parameters)[0]
    value = merge_heads(expected.exact.value)
    low, high = value.amin(1, keepdim=True), value.amax(1, keepdim=True)
    if trial.contract.has(T.CAUSAL):
        low, high = value.cummin(1).values, value.cummax(1).values
    inside = output.clamp(low.expand_as(output), high.expand_as(output))
    trial.must_equal(output, inside, expected.allowed[0])


def _identity_projection(trial: Trial) -> dict[str, Tensor]:
    identity = torch.eye(trial.case.d_out, dtype=torch.float64)
    return {"W_o": identity, **zeroed(trial, "b_o")}


@claims(
    T.ATTENTION,
    T.PROJECTED,
    T.TOKENS,
    limit=3,
    hint="equal scores give equal weights: is there something besides q·k in the scores?",
)
def without_queries_the_values_are_averaged_evenly(trial: Trial) -> None:
    """When all queries are zero, every visible token counts the same."""
    parameters = with_parameters(trial, **zeroed(trial, "W_q", "b_q"))
    trial.must_match(trial.run(parameters=parameters), trial.expect(parameters=parameters))


@claims(
    T.ATTENTION,
    T.PROJECTED,
    T.TOKENS,
    limit=3,
    hint="after the softmax everything is linear: no activation, no normalisation",
)
def the_output_is_linear_in_the_values(trial: Trial) -> None:
    """Twice the values, twice the output: the values only go through sums."""
    plain = zeroed(trial, "b_v", "b_o")
    once = with_parameters(trial, **plain)
    twice = with_parameters(trial, **plain, W_v=-2 * trial.parameters.W_v)
    allowed = trial.expect(parameters=twice).allowed[0]
    single = trial.run(parameters=once)[0]
    trial.must_stay(trial.run(parameters=twice)[0], -2 * single, allowed)


@claims(
    T.ATTENTION,
    T.PROJECTED,
    T.TOKENS,
    limit=3,
    hint="is the input (or something else) added to the output?",
)
def without_values_nothing_is_left(trial: Trial) -> None:
    """When all values are zero, the output is zero, up to the output layer's bias."""
    parameters = with_parameters(trial, **zeroed(trial, "W_v", "b_v"))
    output = trial.run(parameters=parameters)[0]
    bias = torch.zeros(trial.case.d_out) if parameters.b_o is None else parameters.b_o
    allowed = trial.expect(parameters=parameters).allowed[0]
    trial.must_equal(output, bias.expand_as(output).to(torch.float64), allowed)


@claims(T.OUTPUT_BIAS, T.MODULE, limit=3, hint="is the output layer applied once, and last?")
def the_output_bias_shifts_the_output(trial: Trial) -> None:
    """Adding to the output layer's bias adds just that to every output."""
    assert trial.parameters.b_o is not None
    shifted = with_parameters(trial, b_o=trial.parameters.b_o + 1)
    allowed = trial.allowed + trial.expect(parameters=shifted).allowed[0]
    trial.must_stay(trial.run(parameters=shifted)[0], trial.output + 1, allowed)


@claims(
    T.ATTENTION,
    T.BIAS,
    T.MODULE,
    on=with_values(bias=True),
    limit=3,
    hint="a constant added to a row of scores cancels in a softmax over the keys",
)
def a_constant_added_to_all_keys_changes_nothing(trial: Trial) -> None:
    """Adding the same vector to every key leaves the output unchanged."""
    assert trial.parameters.b_k is not None
    shifted = with_parameters(trial, b_k=trial.parameters.b_k + 1)
    allowed = trial.allowed + trial.expect(parameters=shifted).allowed[0]
    trial.must_stay(trial.run(parameters=shifted)[0], trial.output, allowed)


@claims(*tomography.NEEDS, on=tomography.possible, limit=3, hint=SUM_HINT)
def the_weights_are_a_softmax_of_the_scaled_scores(trial: Trial) -> None:
    """The weights it uses are softmax(q·k / √head_dim) over the visible keys, in every head."""
    seen = trial.once(tomography.recover)
    trial.must_equal(seen.weights, seen.expected, seen.allowed, "weights")


@claims(*tomography.NEEDS, on=tomography.possible, limit=3, hint=SUM_HINT)
def the_weights_are_never_negative(trial: Trial) -> None:
    """No attention weight is negative, and those of every query sum to one."""
    seen = trial.once(tomography.recover)
    trial.must_equal(seen.weights, seen.weights.clamp_min(0), seen.allowed, "weights")
    total = Allowed(seen.allowed.exact.sum(-1), seen.allowed.float32.sum(-1))
    sums = seen.weights.sum(-1)
    trial.must_equal(sums, torch.ones_like(sums), total, "sum of weights")


@claims(
    *tomography.NEEDS,
    T.CAUSAL,
    on=tomography.possible,
    limit=3,
    hint="fill what is above the diagonal of the scores with -inf, before the softmax",
)
def hidden_tokens_get_no_weight(trial: Trial) -> None:
    """The weight of every later token is zero."""
    seen = trial.once(tomography.recover)
    future = seen.weights.triu(1)
    trial.must_equal(future, torch.zeros_like(future), seen.allowed, "weights")


@claims(T.WEIGHTS, T.MODULE, limit=3, hint="return the weights after the softmax")
def the_returned_weights_are_those_used(trial: Trial) -> None:
    """The returned weights, applied to the values, give the returned output."""
    value, p = trial.expected.exact.value, trial.parameters
    output = merge_heads(trial.answer[1] @ value)
    if p.W_o is not None:
        output = output @ p.W_o.mT + (0 if p.b_o is None else p.b_o)
    trial.must_equal(trial.output, output, trial.allowed + trial.allowed)


@claims(T.WEIGHTS, limit=3, hint=SUM_HINT)
def the_rows_of_the_returned_weights_sum_to_one(trial: Trial) -> None:
    """Every row of the returned weights sums to one, and no weight is negative."""
    for weights, allowed, name in zip(
        trial.answer, trial.expected.allowed, trial.names, strict=True
    ):
        if name == "output":
            continue
        sums = weights.sum(-1)
        total = Allowed(allowed.exact.sum(-1), allowed.float32.sum(-1))
        trial.must_equal(sums, torch.ones_like(sums), total, f"sum of {name}")
        trial.must_equal(weights, weights.clamp_min(0), allowed, name)


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
