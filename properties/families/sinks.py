"""A sink takes a share of every softmax of its head: the other weights sum to less than one.

Weights that sum to less than one do not average, and a constant added to all scores changes them.
The properties in this file replace the properties of averages. They are about the remaining weight,
sinks far below and far above all scores, heads, a constant added to scores and sinks, and
gradients.
"""

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.cases.case_tensors import round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import (
    assert_each_head_has_its_own,
    assert_only_bias_left,
    assert_right_with,
)
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.gradients import assert_gradients_right_with
from headcheck.properties.families.parameter_transforms import (
    give_equal_values,
    pass_first_number_on,
    project_output,
    replace_parameters,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness import tomography
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import InputContent, MaskForm
from headcheck.reference import Parameters

weights = PropertyFamily(PropertyGroup.WEIGHTS, FORM)
heads = PropertyFamily(PropertyGroup.HEADS, FORM)
gradients = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
NEEDS = (C.SINKS, C.PROJECTED, C.TOKENS)
SHARE_HINT = "a sink adds exp(sink) to the sum of the exponentials, nothing else"
FAR = 1e4
"""the distance of a sink from usual scores at which the smaller exponential is zero in any dtype"""
KEY_STEP = 64.0
"""how much is added to each number of the keys; a power of two"""


def _get_sinks(context: CaseContext) -> Tensor:
    assert context.parameters.sinks is not None, "the contract has sinks"
    return context.parameters.sinks


@weights(*NEEDS, on=tomography.fit_for_recovery, limit=3, hint=SHARE_HINT, essential=True)
def the_weights_are_what_the_sinks_leave(context: CaseContext) -> None:
    """The weights are those of the keys in a softmax over a query's scaled scores and the sink."""
    recovered = context.compute_once(tomography.recover_weights)
    context.assert_close(recovered.weights, recovered.expected, recovered.tolerance, "weights")


@weights(*NEEDS, C.UNCOMPRESSED, limit=3, hint=SHARE_HINT)
def the_weights_sum_to_what_the_sink_leaves(context: CaseContext) -> None:
    """When all values are equal, the output is this value times the weight that the sink leaves."""
    x, parameters = give_equal_values(context)
    expected = context.compute_expected(x, parameters)
    left = _compute_left(context, expected.exact.scores) * expected.exact.value
    wanted = project_output(context, parameters, left, x)
    context.assert_close(context.run(x, parameters)[0], wanted, expected.tolerances[0])


def _compute_left(context: CaseContext, scores: Tensor) -> Tensor:
    """Return each query's remaining weight, e^lse / (e^lse + e^sink), from the scores it sees."""
    visible = context.may_attend(context.case.tokens, context.mask)
    seen = scores if visible is None else scores.masked_fill(~visible, -torch.inf)
    lse = seen.logsumexp(-1, keepdim=True)
    return torch.sigmoid(lse - _get_sinks(context)[:, None, None])


@weights(
    *NEEDS,
    C.CAUSAL,
    on=with_values(mask_form=MaskForm.NONE),
    limit=3,
    hint="the mask is of keys: it never hides the sink",
)
def the_first_token_shares_with_the_sink(context: CaseContext) -> None:
    """The first output is a share of the first token's own value: the sink takes the rest."""
    first = context.compute_expected(context.x[:, :1])
    context.assert_close(context.output[:, :1], first.outputs[0], context.tolerance[:, :1])


@weights(
    *NEEDS,
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="what does a very low sink add to the sum of the exponentials?",
)
def sinks_far_below_the_scores_take_nothing(context: CaseContext) -> None:
    """Sinks far below all scores have no effect on the output."""
    lowest = replace_parameters(context, sinks=torch.full_like(_get_sinks(context), -FAR))
    plain = Parameters(**{n: t for n, t in context.parameters.items() if n != "sinks"})
    context.assert_matches_oracle(
        context.run(parameters=lowest), context.compute_expected(parameters=plain)
    )


@weights(
    *NEEDS,
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="which weights do the keys get if the sink is far above all scores?",
)
def sinks_far_above_the_scores_take_all(context: CaseContext) -> None:
    """With sinks far above all scores, the output is only the output layer's bias."""
    highest = replace_parameters(context, sinks=torch.full_like(_get_sinks(context), FAR))
    assert_only_bias_left(context, highest)


@weights(
    *NEEDS,
    C.DOT_PRODUCT,
    on=with_values(dtype="float64"),
    dtypes=("float64",),
    limit=2,
    hint="the sink is a score like those of the keys, but it is not scaled",
)
def a_constant_added_to_scores_and_sinks_cancels(context: CaseContext) -> None:
    """Adding the same number to all scores and to the sink changes nothing."""
    x, case, p = context.x.clone(), context.case, context.parameters
    x[..., 0] = 1
    queries, keys = torch.zeros_like(p.W_q), p.W_k.clone()
    queries[:, 0] = 1
    still = {"W_q": queries, "b_q": torch.zeros(case.d_out).double()}
    keys[:, 0] += KEY_STEP
    step = KEY_STEP * case.head_dim * get_scale(context.contract, case)
    still |= pass_first_number_on(context)
    before = replace_parameters(context, **still)
    after = replace_parameters(context, **still, W_k=keys, sinks=_get_sinks(context) + step)
    tolerance = context.compute_expected(x, after).tolerances[0]
    got, previous = context.run(x, after)[0], context.run(x, before)[0]
    context.assert_unchanged(got, previous, tolerance)


@heads(
    *NEEDS,
    C.HEADS,
    C.MODULE,
    C.PROPORTIONAL,
    on=at_least(heads=2, tokens=2),
    limit=2,
    hint="head 0 has the first sink, head 1 the second, …",
)
def each_head_has_a_sink_of_its_own(context: CaseContext) -> None:
    """Changing the sink of one head changes the output of this head, and of no other."""
    assert_each_head_has_its_own(context, "sinks")


@gradients(
    *NEEDS,
    C.MODULE,
    after=(it_equals_the_equation,),
    on=compose(at_least(tokens=2), with_values(content=InputContent.NORMAL)),
    limit=2,
    hint="the largest of scores and sink is subtracted from all of them",
)
def far_sinks_have_finite_gradients(context: CaseContext) -> None:
    """Sinks far above or below all scores leave all gradients finite."""
    for far in (FAR, -FAR):
        sinks = round_to_dtype(_get_sinks(context) + far, context.case)
        assert_gradients_right_with(context, replace_parameters(context, sinks=sinks))


@weights(
    *NEEDS,
    C.STATED,
    C.STABLE,
    after=(it_equals_the_equation,),
    on=with_values(dtype="float64"),
    dtypes=("float64",),
    limit=2,
    hint="exponentials overflow: what do you subtract from scores and sinks?",
)
def scores_and_sinks_in_the_millions_are_survived(context: CaseContext) -> None:
    """Scores and sinks of a few million cause no overflow and still give the right output."""
    factor = 3e6 / (float(context.expected.exact.scores.abs().max()) or 1.0)
    larger = {n: t * factor for n, t in context.parameters.items() if n in ("W_q", "b_q", "sinks")}
    assert_right_with(context, replace_parameters(context, **larger))
