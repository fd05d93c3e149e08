"""Promises of a contract about hidden tokens, and about queries that see nothing.

Plain attention promises neither. It multiplies a hidden value by a weight of zero, and 0 · NaN is
NaN; and the softmax of a row that is completely hidden is 0 / 0. Libraries that accept padding from
uninitialised tensors promise both (pytorch/pytorch#101967, #103749). So these properties apply only
to contracts that list `sealed`, or that state the output of an `empty_row`.
"""

import functools
import math

import torch
from jaxtyping import Bool
from torch import Tensor

from headcheck.properties import comparison
from headcheck.properties.cases.case_transforms import CaseTransform, at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.gradients import (
    assert_close_to_exact,
    the_gradient_of_the_input_is_right,
)
from headcheck.properties.harness.case_context import CaseContext, Query
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.call_form import EmptyRow
from headcheck.properties.terms.case import Case, MaskForm

mask_property = PropertyFamily(PropertyGroup.MASK, FORM)
gradient_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
precision_property = PropertyFamily(PropertyGroup.PRECISION, FORM)
NUMBERS = (math.nan, math.inf, -math.inf)
MASKED = compose(at_least(tokens=4, batch=2), with_values(mask_form=MaskForm.BATCH_ONE_ONE_KEY))
EMPTY_HINT = "a row of scores that is hidden completely needs its own rule"
PADDED = 2
"""how many tokens of padding a padded sequence has in front"""


@mask_property(
    C.SEALED,
    C.TOKENS,
    on=MASKED,
    limit=4,
    hint="0 · NaN is NaN: a weight of zero does not keep a value out",
)
def not_even_nan_counts_where_it_is_hidden(context: LiveContext) -> None:
    """NaN or infinity in a token changes no output from which the mask hides the token."""
    assert context.mask is not None
    visible = _broadcast(context, context.mask != 0)
    for token in sorted({0, context.case.tokens // 2, context.case.tokens - 1}):
        blind = ~visible[:, :, token] & (torch.arange(context.case.tokens) != token)
        for number in NUMBERS if bool(blind.any()) else ():
            changed = context.x.clone()
            changed[blind.any(1), token] = number
            output = context.run(changed)[0]
            same = output.where(blind.unsqueeze(-1), context.output)
            what = f"output after token {token}, which is hidden from it, became {number}"
            context.assert_unchanged(same, context.output, context.tolerance, what)


@mask_property(C.EMPTY_ROWS, on=MASKED, limit=4, hint=EMPTY_HINT)
def a_query_that_sees_nothing_gets_what_is_promised(context: CaseContext) -> None:
    """A query that may attend to nothing gives finite numbers, or zeros, as the contract says."""
    mask = hide_everything_from_some(context)
    rows = _list_promised(context, mask)
    got, expected = context.run(mask=mask), context.compute_expected(mask=mask)
    columns = got, expected.outputs, expected.tolerances, context.output_names
    for output, exact, limit, name in zip(*columns, strict=True):
        comparison.assert_finite(output, name)
        each = rows if output.dim() == 3 else rows[:, None].expand(output.shape[:-1])
        where = f"{name} given a mask that hides all from some queries"
        context.assert_close(output.where(each.unsqueeze(-1), exact), exact, limit, where)


@gradient_property(
    C.EMPTY_ROWS,
    C.TOKENS,
    C.MODULE,
    on=MASKED,
    after=(the_gradient_of_the_input_is_right, a_query_that_sees_nothing_gets_what_is_promised),
    limit=2,
    hint="a NaN that is overwritten still comes back in the gradient",
)
def a_query_that_sees_nothing_spoils_no_gradient(context: CaseContext) -> None:
    """A query that may attend to nothing does not change the gradients of other queries."""
    mask = hide_everything_from_some(context)
    cotangent = context.cotangent * _list_promised(context, mask)[..., None]
    given = context.case, context.x, context.parameters, mask
    own = context.answer_gradients(Query(*given, cotangent=cotangent))
    exact = context.compute_exact_gradients(cotangent, mask=mask)
    assert_close_to_exact(context, own, exact, exact.values)


def _list_seen(context: CaseContext, mask: Tensor) -> Bool[Tensor, "batch tokens tokens"]:
    """Return for each query and key whether any head lets the query attend to the key."""
    visible = context.may_attend(context.case.tokens, mask)
    assert visible is not None, "a mask says what is visible"
    return _broadcast(context, visible)


def _broadcast(context: CaseContext, visible: Tensor) -> Bool[Tensor, "batch tokens tokens"]:
    b, h, t = context.case.batch, context.case.heads, context.case.tokens
    return visible.expand(b, h, t, t).any(1)


def _list_promised(context: CaseContext, mask: Tensor) -> Bool[Tensor, "batch tokens"]:
    """Return the queries whose outputs are known: all, or only those that see some key."""
    seen = _list_seen(context, mask).any(-1)
    zeros = context.contract.call_form.mask.empty_row is EmptyRow.ZEROS
    return torch.ones_like(seen) if zeros else seen


def _pad(case: Case) -> Case | None:
    """Return a case with moderate numbers and room for padding."""
    return compose(at_least(tokens=6, batch=2, head_dim=2), with_values(sharpness=1))(case)


def _in_dtype(dtype: str) -> CaseTransform:
    return compose(_pad, with_values(dtype=dtype, mask_form=MaskForm.BATCH_ONE_ONE_KEY))


half_property = functools.partial(
    precision_property, C.HALF, C.CAUSAL, C.PADDING, C.ANY_KEYS, C.TOKENS, limit=3
)


@half_property(
    on=_in_dtype("bfloat16"),
    dtypes=("bfloat16",),
    hint="two large negative numbers, one added to the other, are infinite",
)
def bfloat16_hides_padding_and_later_tokens_together(context: CaseContext) -> None:
    """Given bfloat16, padding and later tokens are hidden at once, and nothing becomes NaN."""
    _assert_hidden_together(context)


@half_property(
    on=_in_dtype("float16"), dtypes=("float16",), hint="the largest number of float16 is 65504"
)
def float16_hides_padding_and_later_tokens_together(context: CaseContext) -> None:
    """Given float16, padding and later tokens are hidden at once, and nothing becomes NaN."""
    _assert_hidden_together(context)


def _assert_hidden_together(context: CaseContext) -> None:
    """Raise Violation unless padded sequences are right in the dtype of the case.

    One sequence has padding in front, whose queries see nothing. Their outputs are compared, too,
    if the contract states them.
    """
    t = context.case.tokens
    mask = torch.ones(context.case.batch, 1, 1, t, dtype=torch.bool)
    mask[0, ..., :PADDED] = False
    mask[1, ..., t - PADDED :] = False
    got, expected = context.run(mask=mask)[0], context.compute_expected(mask=mask)
    rows = _list_promised(context, mask)
    if context.contract.has(C.EMPTY_ROWS):
        comparison.assert_finite(got, f"{context.case.dtype} output")
    what = f"{context.case.dtype} output of tokens beside padding"
    exact = expected.outputs[0]
    context.assert_close(got.where(rows.unsqueeze(-1), exact), exact, context.tolerance, what)


def hide_everything_from_some(context: CaseContext) -> Tensor:
    """Return the case's mask, changed so that some queries see nothing."""
    assert context.mask is not None
    mask = context.mask.clone()
    if mask.shape[-2] > 1:
        mask[..., 0, :] = 0
        mask[..., -1, :] = 0
        return mask
    mask[0] = 0
    if context.contract.has(C.ANY_KEYS):  # lengths count the first tokens
        mask[-1, ..., :PADDED] = 0  # where later tokens are hidden, too, the first ones see nothing
    return mask
