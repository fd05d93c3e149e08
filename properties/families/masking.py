"""Who may attend to whom: later tokens are hidden, or what the mask says is."""

import torch

from properties import comparison
from properties.case import Content, MaskForm
from properties.cases.case_tensors import rounded
from properties.cases.case_transforms import at_least, both, with_values
from properties.contract import Trait
from properties.families.contract import FORM
from properties.families.parameter_transforms import with_parameters, zeroed
from properties.harness.harness import Trial
from properties.harness.module_adapter import construct
from properties.property import Claims, Group
from properties.subject import How
from properties.tolerance import Allowed
from properties.violation import Kind, Violation

claims = Claims(Group.MASK, FORM)
T = Trait
CAUSAL_HINT = "is the mask applied before the softmax, and does it hide what is above the diagonal?"
MASKED = both(at_least(tokens=3), lambda case: None if case.mask_form is MaskForm.NONE else case)


@claims(T.CAUSAL, T.TOKENS, on=at_least(tokens=2), hint=CAUSAL_HINT)
def the_future_is_invisible(trial: Trial) -> None:
    """Changing a later token leaves every earlier output unchanged."""
    for start in sorted({1, trial.case.tokens // 2, trial.case.tokens - 1} - {0}):
        changed = trial.x.clone()
        changed[:, start:] = rounded(3 - 2 * changed[:, start:].flip(1), trial.case)
        output = trial.outputs(changed)[0]
        allowed = trial.allowed[:, :start]
        what = f"output after a change of token {start} and all later ones"
        trial.must_stay(output[:, :start], trial.output[:, :start], allowed, what)


@claims(T.CAUSAL, T.TOKENS, on=at_least(tokens=2), limit=3, hint=CAUSAL_HINT)
def a_prefix_gives_the_same_outputs(trial: Trial) -> None:
    """The first tokens alone give the same outputs as they give in the whole sequence."""
    for length in sorted({1, trial.case.tokens // 2, trial.case.tokens - 1} - {0}):
        prefix = trial.run(trial.x[:, :length], how=How())[0]
        trial.must_stay(prefix, trial.output[:, :length], trial.allowed[:, :length])


@claims(
    T.ATTENTION,
    T.PROJECTED,
    T.TOKENS,
    on=both(at_least(tokens=2), with_values(mask_form=MaskForm.NONE, content=Content.NORMAL)),
    limit=3,
    hint="does the mask hide too much (the diagonal, or the past)?",
)
def what_may_be_seen_is_seen(trial: Trial) -> None:
    """Changing a token changes its own output and every output that may attend to it."""
    # Without queries every visible token has the same weight, so that none is too small to see.
    parameters = with_parameters(trial, **zeroed(trial, "W_q", "b_q"))
    base, allowed = trial.run(parameters=parameters)[0], trial.expect(parameters=parameters).allowed
    token = trial.case.tokens // 2
    changed = trial.x.clone()
    changed[:, token] += 2
    moved = trial.run(changed, parameters, how=How())[0] - base
    limit = allowed[0] + trial.expect(changed, parameters).allowed[0]
    for row in range(token if trial.contract.has(T.CAUSAL) else 0, trial.case.tokens):
        expected = f"another token {token} changes this output"
        comparison.differs(moved[:, row], limit[:, row], expected, f"output[:, {row}]")


@claims(
    T.CAUSAL,
    T.PROJECTED,
    T.TOKENS,
    on=both(at_least(tokens=3), with_values(sharpness=1)),
    limit=2,
    hint=CAUSAL_HINT,
)
def derivatives_reach_only_the_past(trial: Trial) -> None:
    """The derivative of an output with respect to a later token is zero."""
    for row in sorted({0, trial.case.tokens // 2, trial.case.tokens - 2}):
        cotangent = torch.zeros_like(trial.output)
        cotangent[:, row] = 1
        found = trial.gradients(cotangent)["x"]
        limit = 1e-6 * trial.exact_gradients(cotangent).scales["x"].abs().max()
        future = torch.zeros(1) if found is None else found[:, row + 1 :].abs().max()
        if float(future) > float(limit):
            where = f"d output[:, {row}] / d x[:, {row + 1}:]"
            raise Violation(Kind.VALUE, "0", f"{float(future):.3g}", where)


@claims(T.CAUSAL, T.TOKENS, hint=CAUSAL_HINT)
def the_first_token_sees_only_itself(trial: Trial) -> None:
    """The first output is the first token's own value, whatever follows."""
    first = trial.expect(trial.x[:, :1])
    trial.must_equal(trial.output[:, :1], first.outputs[0], trial.allowed[:, :1])


@claims(
    T.CAUSAL,
    T.TOKENS,
    on=at_least(tokens=3),
    hint="without positions the past is a set: nothing may depend on its order",
)
def the_order_of_the_past_does_not_matter(trial: Trial) -> None:
    """Reordering the earlier tokens leaves the last output unchanged."""
    last = trial.case.tokens - 1
    order = torch.cat([torch.arange(last).roll(1), torch.tensor([last])])
    moved = trial.run(trial.x[:, order], how=How())[0][:, last]
    trial.must_stay(moved, trial.output[:, last], trial.allowed[:, last])


@claims(
    T.FULL,
    T.TOKENS,
    on=both(at_least(tokens=2), with_values(mask_form=MaskForm.NONE)),
    limit=3,
    hint="without a mask and positions no token is special",
)
def permuting_the_tokens_permutes_the_outputs(trial: Trial) -> None:
    """Tokens in another order give their outputs in that order."""
    order = torch.arange(trial.case.tokens).roll(1)
    moved = trial.run(trial.x[:, order], how=How())[0]
    trial.must_stay(moved, trial.output[:, order], trial.allowed[:, order])


@claims(T.MASK, on=MASKED, hint="where the mask is 0 or False, the score becomes -inf")
def every_form_of_mask_is_understood(trial: Trial) -> None:
    """Any mask that broadcasts, bool, int or float, acts like the full (b, h, t, t) one."""
    assert trial.mask is not None
    b, h, t = trial.case.batch, trial.case.heads, trial.case.tokens
    full = (trial.mask != 0).expand(b, h, t, t).contiguous()
    trial.must_be_as_before(trial.run(mask=full))


@claims(T.MASK, on=MASKED, limit=3, hint="mask == 0 blocks; is the mask applied before softmax?")
def blocked_tokens_change_nothing(trial: Trial) -> None:
    """Changing a token leaves every output unchanged that may not attend to it."""
    assert trial.mask is not None
    b, h, t = trial.case.batch, trial.case.heads, trial.case.tokens
    seen = (trial.mask != 0).expand(b, h, t, t).any(1)
    for token in range(t):
        changed = trial.x.clone()
        changed[:, token] = 3 - 2 * changed[:, token]
        output = trial.run(changed)[0]
        rows = ~seen[:, :, token] & (torch.arange(t) != token)
        picked = Allowed(trial.allowed.exact[rows], trial.allowed.float32[rows])
        what = f"output after a change of token {token}, which is hidden from it"
        trial.must_stay(output[rows], trial.output[rows], picked, what)


@claims(T.MASK, on=with_values(mask_form=MaskForm.QUERY_KEY), limit=3)
def a_mask_of_ones_is_no_mask(trial: Trial) -> None:
    """A mask that permits everything gives the same as no mask."""
    ones = torch.ones(trial.case.tokens, trial.case.tokens)
    with_ones, without = trial.run(mask=ones), trial.run(mask=None)
    rows = zip(with_ones, without, trial.expect(mask=None).allowed, trial.names, strict=True)
    for got, wanted, allowed, name in rows:
        trial.must_stay(got, wanted, allowed, name)


@claims(T.MASK, on=MASKED, limit=3, hint="do not keep the mask in `self`")
def the_mask_is_not_remembered(trial: Trial) -> None:
    """After a call with a mask, a call without one attends to everything."""
    fresh = construct(trial.bench.subject, trial.contract, trial.case)
    without = trial.run(mask=None, instance=fresh)
    trial.run(instance=fresh)
    again = trial.run(mask=None, instance=fresh)
    rows = zip(again, without, trial.expect(mask=None).allowed, trial.names, strict=True)
    for got, wanted, allowed, name in rows:
        trial.must_stay(got, wanted, allowed, name)


@claims(T.MASK, on=both(at_least(tokens=2), with_values(mask_form=MaskForm.QUERY_KEY)), limit=3)
def a_causal_mask_hides_the_future(trial: Trial) -> None:
    """Given the lower triangle as mask, a change of the last token leaves earlier outputs alone."""
    triangle = torch.ones(trial.case.tokens, trial.case.tokens).tril()
    changed = trial.x.clone()
    changed[:, -1] = 3 - 2 * changed[:, -1]
    before, after = trial.run(mask=triangle)[0], trial.run(changed, mask=triangle)[0]
    allowed = trial.expect(mask=triangle).allowed[0][:, :-1]
    trial.must_stay(
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
