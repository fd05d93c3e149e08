"""Variants of attention in today's models: windows, positions, limits of scores, shared keys.

Every exercise checks whether the output is right (`properties/families/values.py`). The properties
in this file must hold for windows, positions, limited scores and shared keys, whatever else is
wrong.
"""

from dataclasses import replace

import torch

from headcheck.properties import comparison
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import assert_right_with
from headcheck.properties.families.constructor import assert_refused
from headcheck.properties.families.contract import FORM, it_can_be_constructed
from headcheck.properties.families.parameter_transforms import (
    list_own,
    make_identity_projection,
    replace_parameters,
)
from headcheck.properties.families.values import MOST, it_equals_the_equation
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import Case, InputContent

masking = PropertyFamily(PropertyGroup.MASK, FORM)
values = PropertyFamily(PropertyGroup.VALUES, FORM)
heads = PropertyFamily(PropertyGroup.HEADS, FORM)
scale = PropertyFamily(PropertyGroup.SCALE, FORM)
form = PropertyFamily(PropertyGroup.CONTRACT)
WINDOW_HINT = "a token is one of the keys in its own window: how many others are?"
UNEVEN = ((6, 4), (4, 3), (2, 4), (9, 6))
"""numbers of heads, and numbers of key heads that they cannot share evenly"""
LARGE_SCORES = 1e4


def _shorten_window(case: Case) -> Case | None:
    """Return a case with more tokens than its window."""
    tokens = max(case.tokens, 4)
    window = min(case.window or 2, tokens - 2)
    longest = max(case.context_length, tokens)
    return replace(case, tokens=tokens, context_length=longest, window=window)


@masking(
    C.WINDOW, C.CAUSAL, C.TOKENS, on=_shorten_window, limit=6, hint=WINDOW_HINT, essential=True
)
def what_lies_before_the_window_is_invisible(context: CaseContext) -> None:
    """Changing a token changes no output whose window begins after it."""
    tokens, window = context.case.tokens, context.case.window
    for first in range(1, tokens - window + 1):
        changed = context.x.clone()
        changed[:, :first] = 3 - 2 * changed[:, :first]
        output, rows = context.run(changed)[0], slice(first + window - 1, None)
        what = f"output after a change of token {first - 1} and all earlier ones"
        context.assert_unchanged(
            output[:, rows], context.output[:, rows], context.tolerance[:, rows], what
        )


def _lengthen_window(case: Case) -> Case:
    """Return a case whose window exceeds its tokens by one; much longer windows are common."""
    tokens = max(case.tokens, 3)
    longest = max(case.context_length, tokens)
    return replace(case, tokens=tokens, context_length=longest, window=tokens + 1)


@masking(
    C.WINDOW,
    C.CAUSAL,
    C.TOKENS,
    on=_lengthen_window,
    limit=3,
    hint="a window longer than the sequence hides no earlier token",
)
def a_window_longer_than_the_sequence_hides_nothing(context: CaseContext) -> None:
    """With a window longer than the sequence every token sees itself and all earlier ones."""
    context.assert_matches_oracle(context.answer, context.expected)


@values(
    C.POSITIONS,
    C.CAUSAL,
    C.TOKENS,
    on=compose(
        at_least(tokens=4), with_values(sharpness=2, content=InputContent.NORMAL, window=MOST)
    ),
    limit=3,
    hint="the position of a token must affect its scores in every call",
    essential=True,
)
def where_earlier_tokens_stand_counts(context: CaseContext) -> None:
    """Reordering the earlier tokens changes the last output, because positions matter."""
    last = context.case.tokens - 1
    order = torch.cat([torch.arange(last).roll(1), torch.tensor([last])])
    moved = context.x[:, order]
    tolerance = context.tolerance[:, last] + context.compute_expected(moved).tolerances[0][:, last]
    difference = context.run(moved)[0][:, last] - context.output[:, last]
    comparison.assert_differs(difference, tolerance, "earlier tokens in another order count")


@scale(
    C.SOFTCAP,
    C.PROJECTED,
    C.TOKENS,
    after=(it_equals_the_equation,),
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="every score is limited, however large queries and keys are",
)
def no_score_exceeds_its_limit(context: CaseContext) -> None:
    """No score exceeds the limit, however large the queries are."""
    queries = {
        name: tensor * LARGE_SCORES
        for name, tensor in context.parameters.items()
        if name in ("W_q", "b_q")
    }
    assert_right_with(context, replace_parameters(context, **queries))


@heads(
    C.GROUPED,
    C.PROJECTED,
    C.MODULE,
    C.PROPORTIONAL,
    on=lambda case: replace(
        case, heads=max(4, 2 * (case.heads // 2)), group=2, tokens=max(2, case.tokens)
    ),
    limit=3,
    hint="neighbouring heads share: in groups of two, 0 and 1 the first",
)
def neighbouring_heads_share_keys_and_values(context: CaseContext) -> None:
    """Changing the keys and values of one group changes the outputs of its heads, and no others."""
    d, group = context.case.head_dim, context.case.group
    identity = make_identity_projection(context)
    base = replace_parameters(context, **identity)
    expected = context.compute_expected(parameters=base)
    before = context.run(parameters=base)[0]
    for number in {0, context.case.kv_heads - 1}:
        changed = {name: getattr(base, name).clone() for name in list_own(context, "W_k", "W_v")}
        for tensor in changed.values():
            tensor[number * d : (number + 1) * d] *= -2
        after = context.run(parameters=replace_parameters(context, **identity, **changed))[0]
        own = range(number * group * d, (number + 1) * group * d)
        others = [column for column in range(context.case.d_out) if column not in own]
        tolerance = expected.tolerances[0][..., others]
        what = f"output of heads that do not use number {number} of keys and values"
        context.assert_unchanged(after[..., others], before[..., others], tolerance, what)


@form(
    C.GROUPED,
    C.DIVISIBLE,
    after=(it_can_be_constructed,),
    limit=1,
    on=with_values(heads=4, group=2),
    hint="the constructor refuses what cannot be shared evenly",
)
def heads_that_cannot_share_evenly_are_refused(context: LiveContext) -> None:
    """The constructor refuses a number of key heads that does not divide the number of heads."""
    names = {argument.quantity: argument.name for argument in context.contract.arguments}
    for count, shared in UNEVEN:
        # The width can be shared evenly: what has to be is the number of heads.
        case = replace(context.case, heads=count, head_dim=shared, group=1)
        arguments = context.contract.build_arguments(case)
        arguments[names["kv_heads"]] = shared
        assert_refused(context, arguments, f"{count} heads cannot share {shared} evenly")
