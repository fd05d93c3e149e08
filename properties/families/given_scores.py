"""A mask that is added to the scores may hold any numbers: then it is a bias.

Some libraries treated such a mask as boolean in evaluation, where they chose a faster path, and as
a bias in training (pytorch/pytorch#107084, #118628).
"""

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import compute_expected
from headcheck.properties.cases.case_tensors import draw_normal, round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import MaskForm

family_property = PropertyFamily(PropertyGroup.MASK, FORM)
SPREAD = 2
"""the standard deviation of the added mask"""
WAYS = (
    (CallOptions(manner="added"), "in evaluation"),
    (CallOptions(manner="added", training=True), "in training"),
    (CallOptions(manner="added", grad="grad"), "where gradients are recorded"),
)


@family_property(
    C.BIAS_MASK,
    C.TOKENS,
    after=(it_equals_the_equation,),
    on=compose(at_least(tokens=3), with_values(mask_form=MaskForm.QUERY_KEY, dropout=0.0)),
    limit=4,
    hint="is the mask read as true and false in some of the modes?",
)
def numbers_in_an_added_mask_are_added_to_the_scores(context: LiveContext) -> None:
    """Numbers in the mask are added to the scores, both in evaluation and in training."""
    assert context.mask is not None
    drawn = SPREAD * draw_normal(context.case, "x2", *context.mask.shape)
    bias = round_to_dtype(drawn, context.case)
    nothing_hidden = torch.ones_like(context.mask)
    for mask, which in ((nothing_hidden, "added numbers"), (context.mask, "some keys hidden")):
        _assert_added(context, bias, mask, which)


def _assert_added(context: LiveContext, bias: Tensor, mask: Tensor, which: str) -> None:
    """Raise Violation unless numbers are added in all modes, and hidden tokens stay hidden."""
    asked = context.contract, context.case, context.x, context.parameters
    visible = context.may_attend(context.case.tokens, mask)
    expected = compute_expected(*asked, visible, added=bias)
    fill = context.contract.call_form.mask.fill
    given = bias.masked_fill(mask == 0, fill)
    for options, when in WAYS:
        got = context.run_module(mask=given, options=options)
        context.assert_matches_oracle(got, expected, f"with {which}, {when}")
