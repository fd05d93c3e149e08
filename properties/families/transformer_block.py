"""A transformer block: attention and a feed-forward, each after a norm and with a residual.

Its output is not an average of values, so properties of plain attention do not apply. The
properties in this file are about layers that return zero, about a constant, which a layer norm
removes and a residual keeps, and about tokens, which only attention connects.
"""

import math

import torch

from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import assert_right_with
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.parameter_transforms import replace_parameters, zero_parameters
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import InputContent, MaskForm

values = PropertyFamily(PropertyGroup.VALUES, FORM)
scale = PropertyFamily(PropertyGroup.SCALE, FORM)
LAST_OF_ATTENTION, LAST_OF_FEED_FORWARD = ("W_o", "b_o"), ("W_2", "b_2")
SHIFT = 2.0
"""a constant that is added to all numbers of a token"""
FAR = 1e4
"""how far below zero all scores are, before they are scaled"""
SOME_TOKENS = compose(
    at_least(tokens=3, context_length=3, d_in=2), with_values(content=InputContent.NORMAL)
)


@values(C.BLOCK, limit=3, hint="which tensor does each residual connection add?")
def layers_that_give_nothing_leave_the_tokens(context: CaseContext) -> None:
    """With zeros in the last layers of attention and feed-forward, the output is the tokens."""
    nothing = zero_parameters(context, *LAST_OF_ATTENTION, *LAST_OF_FEED_FORWARD)
    parameters = replace_parameters(context, **nothing)
    tolerance = context.compute_expected(parameters=parameters).tolerances[0]
    context.assert_close(context.run(parameters=parameters)[0], context.x, tolerance)


@values(
    C.BLOCK, on=SOME_TOKENS, limit=3, hint="over which axis does a norm take its mean and variance?"
)
def without_attention_tokens_stay_apart(context: CaseContext) -> None:
    """With zeros in the output layer of attention, a token changes only its own output."""
    parameters = replace_parameters(context, **zero_parameters(context, *LAST_OF_ATTENTION))
    token = context.case.tokens // 2
    changed = context.x.clone()
    changed[:, token] = 3 - 2 * changed[:, token].flip(-1)
    before, after = (context.run(x, parameters)[0] for x in (context.x, changed))
    others = [row for row in range(context.case.tokens) if row != token]
    tolerance = context.compute_expected(changed, parameters).tolerances[0][:, others]
    what = f"output of others than token {token}"
    context.assert_unchanged(after[:, others], before[:, others], tolerance, what)


@values(
    C.BLOCK,
    C.CENTRED_NORMS,
    on=SOME_TOKENS,
    limit=3,
    hint="a layer norm takes a constant away; where do the residuals begin?",
)
def a_constant_added_to_a_token_comes_through(context: CaseContext) -> None:
    """A constant added to all numbers of a token is added to its output, and to no other."""
    token = context.case.tokens // 2
    shift = torch.zeros(context.case.tokens, 1, dtype=torch.float64)
    shift[token] = SHIFT
    shifted = context.x + shift
    tolerance = context.compute_expected(shifted).tolerances[0] + context.tolerance
    before, after = context.output, context.run(shifted)[0]
    context.assert_close(after.double() - before.double(), shift.expand_as(after), tolerance)


@scale(
    C.BLOCK,
    C.CENTRED_NORMS,
    C.STABLE,
    C.SOFTMAX,
    after=(it_equals_the_equation,),
    on=with_values(dtype="float64", mask_form=MaskForm.NONE, content=InputContent.NORMAL),
    limit=3,
    dtypes=("float64",),
    hint="all scores are far below zero here: only differences may matter",
)
def scores_far_below_zero_attend_alike(context: CaseContext) -> None:
    """Only differences between scores matter, even if all scores are far below zero."""
    gain, shift = context.parameters.gain_in, context.parameters.shift_in
    assert gain is not None and shift is not None, "a layer norm has both"
    gain, shift, keys = gain.clone(), shift.clone(), context.parameters.W_k.clone()
    gain[0], shift[0] = 0, 1  # the first number of normed tokens is always 1
    queries = torch.zeros_like(keys)
    queries[:, 0], keys[:, 0] = -FAR, math.sqrt(context.case.head_dim)
    parameters = replace_parameters(context, W_q=queries, W_k=keys, gain_in=gain, shift_in=shift)
    assert_right_with(context, parameters)
