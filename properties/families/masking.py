"""Who may attend to whom: later tokens are hidden, or what the mask says is."""

import torch

from properties import comparison
from properties.case import InputContent, MaskForm
from properties.cases.case_tensors import round_to_dtype
from properties.cases.case_transforms import at_least, compose, with_values
from properties.contract import Capability
from properties.families.contract import FORM
from properties.families.parameter_transforms import replace_parameters, zero_parameters
from properties.harness.case_context import CaseContext
from properties.harness.harness import LiveContext
from properties.harness.module_adapter import construct
from properties.property import PropertyFamily, PropertyGroup
from properties.tolerance import Tolerance
from properties.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.MASK, FORM)
C = Capability
CAUSAL_HINT = "is the mask applied before the softmax, and does it hide what is above the diagonal?"
MASKED = compose(at_least(tokens=3), lambda case: None if case.mask_form is MaskForm.NONE else case)


@family_property(C.CAUSAL, C.TOKENS, on=at_least(tokens=2), hint=CAUSAL_HINT)
def the_future_is_invisible(context: CaseContext) -> None:
    """Changing a later token leaves every earlier output unchanged."""
    for start in sorted({1, context.case.tokens // 2, context.case.tokens - 1} - {0}):
        changed = context.x.clone()
        changed[:, start:] = round_to_dtype(3 - 2 * changed[:, start:].flip(1), context.case)
        output = context.run_stacked(changed)[0]
        allowed = context.tolerance[:, :start]
        what = f"output after a change of token {start} and all later ones"
        context.assert_unchanged(output[:, :start], context.output[:, :start], allowed, what)


@family_property(C.CAUSAL, C.TOKENS, on=at_least(tokens=2), limit=3, hint=CAUSAL_HINT)
def a_prefix_gives_the_same_outputs(context: CaseContext) -> None:
    """The first tokens alone give the same outputs as they give in the whole sequence."""
    for length in sorted({1, context.case.tokens // 2, context.case.tokens - 1} - {0}):
        prefix = context.run(context.x[:, :length])[0]
        context.assert_unchanged(prefix, context.output[:, :length], context.tolerance[:, :length])


@family_property(
    C.ATTENTION,
    C.PROJECTED,
    C.TOKENS,
    on=compose(
        at_least(tokens=2), with_values(mask_form=MaskForm.NONE, content=InputContent.NORMAL)
    ),
    limit=3,
    hint="does the mask hide too much (the diagonal, or the past)?",
)
def what_may_be_seen_is_seen(context: CaseContext) -> None:
    """Changing a token changes its own output and every output that may attend to it."""
    # Without queries every visible token has the same weight, so that none is too small to see.
    parameters = replace_parameters(context, **zero_parameters(context, "W_q", "b_q"))
    base, allowed = (
        context.run(parameters=parameters)[0],
        context.compute_expected(parameters=parameters).tolerances,
    )
    token = context.case.tokens // 2
    changed = context.x.clone()
    changed[:, token] += 2
    moved = context.run(changed, parameters)[0] - base
    limit = allowed[0] + context.compute_expected(changed, parameters).tolerances[0]
    for row in range(token if context.contract.has(C.CAUSAL) else 0, context.case.tokens):
        expected = f"another token {token} changes this output"
        comparison.assert_differs(moved[:, row], limit[:, row], expected, f"output[:, {row}]")


@family_property(
    C.CAUSAL,
    C.PROJECTED,
    C.TOKENS,
    on=compose(at_least(tokens=3), with_values(sharpness=1)),
    limit=2,
    hint=CAUSAL_HINT,
)
def derivatives_reach_only_the_past(context: CaseContext) -> None:
    """The derivative of an output with respect to a later token is zero."""
    for row in sorted({0, context.case.tokens // 2, context.case.tokens - 2}):
        cotangent = torch.zeros_like(context.output)
        cotangent[:, row] = 1
        found = context.compute_gradients(cotangent)["x"]
        limit = 1e-6 * context.compute_exact_gradients(cotangent).scales["x"].abs().max()
        future = torch.zeros(1) if found is None else found[:, row + 1 :].abs().max()
        if float(future) > float(limit):
            where = f"d output[:, {row}] / d x[:, {row + 1}:]"
            raise Violation(ViolationKind.VALUE, "0", f"{float(future):.3g}", where)


@family_property(C.CAUSAL, C.TOKENS, hint=CAUSAL_HINT)
def the_first_token_sees_only_itself(context: CaseContext) -> None:
    """The first output is the first token's own value, whatever follows."""
    first = context.compute_expected(context.x[:, :1])
    context.assert_close(context.output[:, :1], first.outputs[0], context.tolerance[:, :1])


@family_property(
    C.CAUSAL,
    C.TOKENS,
    on=at_least(tokens=3),
    hint="without positions the past is a set: nothing may depend on its order",
)
def the_order_of_the_past_does_not_matter(context: CaseContext) -> None:
    """Reordering the earlier tokens leaves the last output unchanged."""
    last = context.case.tokens - 1
    order = torch.cat([torch.arange(last).roll(1), torch.tensor([last])])
    moved = context.run(context.x[:, order])[0][:, last]
    context.assert_unchanged(moved, context.output[:, last], context.tolerance[:, last])


@family_property(
    C.FULL,
    C.TOKENS,
    on=compose(at_least(tokens=2), with_values(mask_form=MaskForm.NONE)),
    limit=3,
    hint="without a mask and positions no token is special",
)
def permuting_the_tokens_permutes_the_outputs(context: CaseContext) -> None:
    """Tokens in another order give their outputs in that order."""
    order = torch.arange(context.case.tokens).roll(1)
    moved = context.run(context.x[:, order])[0]
    context.assert_unchanged(moved, context.output[:, order], context.tolerance[:, order])


@family_property(C.MASK, on=MASKED, hint="where the mask is 0 or False, the score becomes -inf")
def every_form_of_mask_is_understood(context: CaseContext) -> None:
    """Any mask that broadcasts, bool, int or float, acts like the full (b, h, t, t) one."""
    assert context.mask is not None
    b, h, t = context.case.batch, context.case.heads, context.case.tokens
    full = (context.mask != 0).expand(b, h, t, t).contiguous()
    context.assert_answer_unchanged(context.run(mask=full))


@family_property(
    C.MASK, on=MASKED, limit=3, hint="mask == 0 blocks; is the mask applied before softmax?"
)
def blocked_tokens_change_nothing(context: CaseContext) -> None:
    """Changing a token leaves every output unchanged that may not attend to it."""
    assert context.mask is not None
    b, h, t = context.case.batch, context.case.heads, context.case.tokens
    visible = (context.mask != 0).expand(b, h, t, t).any(1)
    for token in range(t):
        changed = context.x.clone()
        changed[:, token] = 3 - 2 * changed[:, token]
        output = context.run(changed)[0]
        rows = ~visible[:, :, token] & (torch.arange(t) != token)
        picked = Tolerance(context.tolerance.exact[rows], context.tolerance.float32[rows])
        what = f"output after a change of token {token}, which is hidden from it"
        context.assert_unchanged(output[rows], context.output[rows], picked, what)


@family_property(C.MASK, on=with_values(mask_form=MaskForm.QUERY_KEY), limit=3)
def a_mask_of_ones_is_no_mask(context: CaseContext) -> None:
    """A mask that permits everything gives the same as no mask."""
    ones = torch.ones(context.case.tokens, context.case.tokens)
    with_ones, without = context.run(mask=ones), context.run(mask=None)
    rows = zip(
        with_ones,
        without,
        context.compute_expected(mask=None).tolerances,
        context.output_names,
        strict=True,
    )
    for got, wanted, allowed, name in rows:
        context.assert_unchanged(got, wanted, allowed, name)


@family_property(C.MASK, on=MASKED, limit=3, hint="do not keep the mask in `self`")
def the_mask_is_not_remembered(context: LiveContext) -> None:
    """After a call with a mask, a call without one attends to everything."""
    fresh = construct(context.harness.subject, context.contract, context.case)
    without = context.run_module(mask=None, adapter=fresh)
    context.run_module(adapter=fresh)
    again = context.run_module(mask=None, adapter=fresh)
    rows = zip(
        again,
        without,
        context.compute_expected(mask=None).tolerances,
        context.output_names,
        strict=True,
    )
    for got, wanted, allowed, name in rows:
        context.assert_unchanged(got, wanted, allowed, name)


@family_property(
    C.MASK, on=compose(at_least(tokens=2), with_values(mask_form=MaskForm.QUERY_KEY)), limit=3
)
def a_causal_mask_hides_the_future(context: CaseContext) -> None:
    """Given the lower triangle as mask, a change of the last token leaves earlier outputs alone."""
    triangle = torch.ones(context.case.tokens, context.case.tokens).tril()
    changed = context.x.clone()
    changed[:, -1] = 3 - 2 * changed[:, -1]
    before, after = context.run(mask=triangle)[0], context.run(changed, mask=triangle)[0]
    allowed = context.compute_expected(mask=triangle).tolerances[0][:, :-1]
    context.assert_unchanged(
        after[:, :-1], before[:, :-1], allowed, "output after a change of the last token"
    )


ALL = (
    the_future_is_invisible,
    a_prefix_gives_the_same_outputs,
    what_may_be_seen_is_seen,
    derivatives_reach_only_the_past,
    the_first_token_sees_only_itself,
    the_order_of_the_past_does_not_matter,
    permuting_the_tokens_permutes_the_outputs,
    every_form_of_mask_is_understood,
    blocked_tokens_change_nothing,
    a_mask_of_ones_is_no_mask,
    the_mask_is_not_remembered,
    a_causal_mask_hides_the_future,
)
