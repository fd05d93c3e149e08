"""Padding: tokens that only fill up a batch, on either side, have no effect.

Padding does not change positions either, since positions matter only by distance.
"""

from dataclasses import replace

import torch

from headcheck.properties.cases.case_tensors import draw_normal, round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import Case, MaskForm

family_property = PropertyFamily(PropertyGroup.MASK, FORM)
HINT = "a hidden token is hidden as a key, from all queries and heads"
GARBAGE = 3
"""how many tokens of padding stand before or behind sequences"""
MASKED = compose(at_least(tokens=3), with_values(mask_form=MaskForm.BATCH_ONE_ONE_KEY))


def _leave_room(case: Case) -> Case | None:
    """Return the case without a mask, in a context with room for padding."""
    tokens = max(case.tokens, 2)
    longest = max(case.context_length, tokens + GARBAGE)
    return replace(case, tokens=tokens, context_length=longest, mask_form=MaskForm.NONE)


@family_property(C.PADDING, C.TOKENS, on=MASKED, limit=4, hint=HINT, essential=True)
def padding_is_invisible(context: CaseContext) -> None:
    """Changing the padding changes no output of other tokens."""
    assert context.mask is not None
    is_token = (context.mask != 0)[:, 0, 0].expand(context.x.shape[:2])
    changed = context.x.where(is_token[..., None], 3 - 2 * context.x)
    output = context.run(changed)[0].where(is_token[..., None], context.output)
    what = "output of tokens after a change of the padding"
    context.assert_unchanged(output, context.output, context.tolerance, what)


@family_property(
    C.PADDING,
    C.TOKENS,
    on=_leave_room,
    limit=3,
    hint="the padding may come first, so the first tokens may be padding",
    essential=True,
)
def padding_may_stand_on_either_side(context: CaseContext) -> None:
    """Padding before or after the tokens does not change their outputs."""
    case, x = context.case, context.x
    # Lengths count the first tokens, so padding cannot come first.
    sides = ("before", "behind") if context.contract.has(C.ANY_KEYS) else ("behind",)
    filled = draw_normal(case, "x2", case.batch, GARBAGE, case.d_in)
    padding, tokens = round_to_dtype(filled, case), slice(GARBAGE, GARBAGE + case.tokens)
    length = case.tokens + GARBAGE
    for side in sides:
        first = side == "before"
        own = tokens if first else slice(0, case.tokens)
        mask = torch.zeros(case.batch, 1, 1, length, dtype=torch.bool)
        mask[..., own] = True
        padded = torch.cat((padding, x) if first else (x, padding), dim=1)
        output = context.run(padded, mask=mask)[0][:, own]
        limit = context.compute_expected(padded, mask=mask).tolerances[0][:, own]
        what = f"output with padding {side} the tokens"
        context.assert_unchanged(output, context.output, limit + context.tolerance, what)


@family_property(
    C.PADDING,
    C.TOKENS,
    C.BATCH,
    on=compose(at_least(batch=2), MASKED),
    limit=2,
    hint="a sequence that sees nothing may give anything, for itself only",
)
def a_sequence_of_padding_spoils_no_other(context: CaseContext) -> None:
    """A sequence that is all padding does not change the outputs of other sequences."""
    assert context.mask is not None
    mask = (context.mask != 0).expand(context.case.batch, 1, 1, context.case.tokens).clone()
    mask[0] = False
    output = torch.cat([context.output[:1], context.run(mask=mask)[0][1:]])
    what = "output of sequences beside one that is all padding"
    context.assert_unchanged(output, context.output, context.tolerance, what)
