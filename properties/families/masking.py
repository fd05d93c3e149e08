"""Who may attend to whom: later tokens are hidden, or what the mask says is."""

import torch

from properties import comparison
from properties.case import InputContent, MaskForm
from properties.cases.case_tensors import round_to_dtype
from properties.cases.case_transforms import at_least, compose, with_values
from properties.contract import Capability
from properties.families.contract import FORM
from properties.families.parameter_transforms import replace_parameters, zero_parameters
from properties.harness.harness import CaseContext
from properties.harness.module_adapter import construct
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions
from properties.tolerance import Tolerance
from properties.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.MASK, FORM)
C = Capability
CAUSAL_HINT = "is the mask applied before the softmax, and does it hide what is above the diagonal?"
MASKED = compose(at_least(tokens=3), lambda case: None if case.mask_form is MaskForm.NONE else case)


@family_property(C.CAUSAL, C.TOKENS, on=at_least(tokens=2), hint=CAUSAL_HINT)
def the_future_is_invisible(trial: CaseContext) -> None:
    """Changing a later token leaves every earlier output unchanged."""
    for start in sorted({1, trial.case.tokens // 2, trial.case.tokens - 1} - {0}):
        changed = trial.x.clone()
        changed[:, start:] = round_to_dtype(3 - 2 * changed[:, start:].flip(1), trial.case)
        output = trial.run_stacked(changed)[0]
        allowed = trial.tolerance[:, :start]
        what = f"output after a change of token {start} and all later ones"
        trial.assert_unchanged(output[:, :start], trial.output[:, :start], allowed, what)


@family_property(C.CAUSAL, C.TOKENS, on=at_least(tokens=2), limit=3, hint=CAUSAL_HINT)
def a_prefix_gives_the_same_outputs(trial: CaseContext) -> None:
    """The first tokens alone give the same outputs as they give in the whole sequence."""
    for length in sorted({1, trial.case.tokens // 2, trial.case.tokens - 1} - {0}):
        prefix = trial.run(trial.x[:, :length], how=CallOptions())[0]
        trial.assert_unchanged(prefix, trial.output[:, :length], trial.tolerance[:, :length])


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
def what_may_be_seen_is_seen(trial: CaseContext) -> None:
    """Changing a token changes its own output and every output that may attend to it."""
    # Without queries every visible token has the same weight, so that none is too small to see.
    parameters = replace_parameters(trial, **zero_parameters(trial, "W_q", "b_q"))
    base, allowed = (
        trial.run(parameters=parameters)[0],
        trial.compute_expected(parameters=parameters).tolerances,
    )
    token = trial.case.tokens // 2
    changed = trial.x.clone()
    changed[:, token] += 2
    moved = trial.run(changed, parameters, how=CallOptions())[0] - base
    limit = allowed[0] + trial.compute_expected(changed, parameters).tolerances[0]
    for row in range(token if trial.contract.has(C.CAUSAL) else 0, trial.case.tokens):
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
def derivatives_reach_only_the_past(trial: CaseContext) -> None:
    """The derivative of an output with respect to a later token is zero."""
    for row in sorted({0, trial.case.tokens // 2, trial.case.tokens - 2}):
        cotangent = torch.zeros_like(trial.output)
        cotangent[:, row] = 1
        found = trial.compute_gradients(cotangent)["x"]
        limit = 1e-6 * trial.compute_exact_gradients(cotangent).scales["x"].abs().max()
        future = torch.zeros(1) if found is None else found[:, row + 1 :].abs().max()
        if float(future) > float(limit):
            where = f"d output[:, {row}] / d x[:, {row + 1}:]"
            raise Violation(ViolationKind.VALUE, "0", f"{float(future):.3g}", where)


@family_property(C.CAUSAL, C.TOKENS, hint=CAUSAL_HINT)
def the_first_token_sees_only_itself(trial: CaseContext) -> None:
    """The first output is the first token's own value, whatever follows."""
    first = trial.compute_expected(trial.x[:, :1])
    trial.assert_close(trial.output[:, :1], first.outputs[0], trial.tolerance[:, :1])


@family_property(
    C.CAUSAL,
    C.TOKENS,
    on=at_least(tokens=3),
    hint="without positions the past is a set: nothing may depend on its order",
)
def the_order_of_the_past_does_not_matter(trial: CaseContext) -> None:
    """Reordering the earlier tokens leaves the last output unchanged."""
    last = trial.case.tokens - 1
    order = torch.cat([torch.arange(last).roll(1), torch.tensor([last])])
    moved = trial.run(trial.x[:, order], how=CallOptions())[0][:, last]
    trial.assert_unchanged(moved, trial.output[:, last], trial.tolerance[:, last])


@family_property(
    C.FULL,
    C.TOKENS,
    on=compose(at_least(tokens=2), with_values(mask_form=MaskForm.NONE)),
    limit=3,
    hint="without a mask and positions no token is special",
)
def permuting_the_tokens_permutes_the_outputs(trial: CaseContext) -> None:
    """Tokens in another order give their outputs in that order."""
    order = torch.arange(trial.case.tokens).roll(1)
    moved = trial.run(trial.x[:, order], how=CallOptions())[0]
    trial.assert_unchanged(moved, trial.output[:, order], trial.tolerance[:, order])


@family_property(C.MASK, on=MASKED, hint="where the mask is 0 or False, the score becomes -inf")
def every_form_of_mask_is_understood(trial: CaseContext) -> None:
    """Any mask that broadcasts, bool, int or float, acts like the full (b, h, t, t) one."""
    assert trial.mask is not None
    b, h, t = trial.case.batch, trial.case.heads, trial.case.tokens
    full = (trial.mask != 0).expand(b, h, t, t).contiguous()
    trial.assert_answer_unchanged(trial.run(mask=full))


@family_property(
    C.MASK, on=MASKED, limit=3, hint="mask == 0 blocks; is the mask applied before softmax?"
)
def blocked_tokens_change_nothing(trial: CaseContext) -> None:
    """Changing a token leaves every output unchanged that may not attend to it."""
    assert trial.mask is not None
    b, h, t = trial.case.batch, trial.case.heads, trial.case.tokens
    seen = (trial.mask != 0).expand(b, h, t, t).any(1)
    for token in range(t):
        changed = trial.x.clone()
        changed[:, token] = 3 - 2 * changed[:, token]
        output = trial.run(changed)[0]
        rows = ~seen[:, :, token] & (torch.arange(t) != token)
        picked = Tolerance(trial.tolerance.exact[rows], trial.tolerance.float32[rows])
        what = f"output after a change of token {token}, which is hidden from it"
        trial.assert_unchanged(output[rows], trial.output[rows], picked, what)


@family_property(C.MASK, on=with_values(mask_form=MaskForm.QUERY_KEY), limit=3)
def a_mask_of_ones_is_no_mask(trial: CaseContext) -> None:
    """A mask that permits everything gives the same as no mask."""
    ones = torch.ones(trial.case.tokens, trial.case.tokens)
    with_ones, without = trial.run(mask=ones), trial.run(mask=None)
    rows = zip(
        with_ones,
        without,
        trial.compute_expected(mask=None).tolerances,
        trial.output_names,
        strict=True,
    )
    for got, wanted, allowed, name in rows:
        trial.assert_unchanged(got, wanted, allowed, name)


@family_property(C.MASK, on=MASKED, limit=3, hint="do not keep the mask in `self`")
def the_mask_is_not_remembered(trial: CaseContext) -> None:
    """After a call with a mask, a call without one attends to everything."""
    fresh = construct(trial.harness.subject, trial.contract, trial.case)
    without = trial.run(mask=None, instance=fresh)
    trial.run(instance=fresh)
    again = trial.run(mask=None, instance=fresh)
    rows = zip(
        again,
        without,
        trial.compute_expected(mask=None).tolerances,
        trial.output_names,
        strict=True,
    )
    for got, wanted, allowed, name in rows:
        trial.assert_unchanged(got, wanted, allowed, name)


@family_property(
    C.MASK, on=compose(at_least(tokens=2), with_values(mask_form=MaskForm.QUERY_KEY)), limit=3
)
def a_causal_mask_hides_the_future(trial: CaseContext) -> None:
    """Given the lower triangle as mask, a change of the last token leaves earlier outputs alone."""
    triangle = torch.ones(trial.case.tokens, trial.case.tokens).tril()
    changed = trial.x.clone()
    changed[:, -1] = 3 - 2 * changed[:, -1]
    before, after = trial.run(mask=triangle)[0], trial.run(changed, mask=triangle)[0]
    allowed = trial.compute_expected(mask=triangle).tolerances[0][:, :-1]
    trial.assert_unchanged(
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
