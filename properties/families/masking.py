"""Masks decide which token may attend to which: later or blocked tokens are hidden."""

import functools
from collections.abc import Iterator

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import MaskForm, MaskType
from headcheck.properties.terms.peculiarity import (
    MASK_OF_MORE_AXES,
    MASK_OF_NUMBERS,
    MASK_OF_TWO_AXES,
    select_plainest,
)
from headcheck.properties.violations.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.MASK, FORM)
MASK_NUMBERS = {
    torch.float64: (0.5, -1.0, 1e-50, 200.0, -1e9),
    torch.float16: (0.5, -1.0, 1e-3, 200.0, -1e4),
    torch.float32: (0.25, -0.5, 1e-30, 1.0, -1e9),
    torch.uint8: (1, 200, 255),
    torch.int32: (1, -1, 256),
    torch.int64: (1, -2, 2**32),
}
"""the types of masks, each with numbers of that type other than zero

Some of these do not fit into a narrower type, and some come from masks that are added to scores.
"""
CAUSAL_HINT = "no later token may enter: no score, no value, no mean"
SIZES_OF_MASKED = {"batch": 2, "tokens": 4, "heads": 2, "head_dim": 2, "d_in": 3}
TWO_AXES = ({**SIZES_OF_MASKED, "mask_form": MaskForm.QUERY_KEY},)
SQUARES = (
    {**SIZES_OF_MASKED, "batch": 4, "mask_form": MaskForm.QUERY_KEY},
    {**SIZES_OF_MASKED, "batch": 4, "heads": 4, "mask_form": MaskForm.QUERY_KEY},
)
"""sizes with as many sequences as tokens, or also as many heads, so that a mask's shape does not
identify its axes"""
MASK_FORMS = tuple(
    {**SIZES_OF_MASKED, "mask_form": form}
    for form in (
        MaskForm.ONE_ONE_QUERY_KEY,
        MaskForm.BATCH_ONE_QUERY_KEY,
        MaskForm.BATCH_HEAD_QUERY_KEY,
        MaskForm.BATCH_ONE_ONE_KEY,
        MaskForm.ONE_HEAD_QUERY_KEY,
    )
)
"""masks with an axis for sequences or heads"""
UNMASKED = with_values(mask_form=MaskForm.NONE)
BOOL_IN_FLOAT32 = with_values(
    mask_form=MaskForm.QUERY_KEY, mask_type=MaskType.BOOL, dtype="float32"
)
MASKED = compose(at_least(tokens=3), lambda case: None if case.mask_form is MaskForm.NONE else case)


causal_property = functools.partial(family_property, C.CAUSAL, C.TOKENS, hint=CAUSAL_HINT)


@causal_property(on=at_least(tokens=2), essential=True, usual=4)
def the_future_is_invisible(context: CaseContext) -> None:
    """Changing a later token leaves every earlier output unchanged."""
    for start in sorted({1, context.case.tokens // 2, context.case.tokens - 1} - {0}):
        changed = context.x.clone()
        changed[:, start:] = round_to_dtype(3 - 2 * changed[:, start:].flip(1), context.case)
        output = context.run_stacked(changed)[0]
        tolerance = context.tolerance[:, :start]
        what = f"output after a change of token {start} and all later ones"
        context.assert_unchanged(output[:, :start], context.output[:, :start], tolerance, what)


@causal_property(C.ANY_LENGTH, on=compose(at_least(tokens=2), UNMASKED), limit=3)
def a_prefix_gives_the_same_outputs(context: CaseContext) -> None:
    """The first tokens give the same outputs alone as in the whole sequence."""
    for length in sorted({1, context.case.tokens // 2, context.case.tokens - 1} - {0}):
        prefix = context.run(context.x[:, :length])[0]
        context.assert_unchanged(prefix, context.output[:, :length], context.tolerance[:, :length])


@causal_property(C.PROJECTED, on=compose(at_least(tokens=3), with_values(sharpness=1)), limit=2)
def derivatives_reach_only_the_past(context: CaseContext) -> None:
    """The derivative of an output with respect to a later token is zero."""
    last = context.case.tokens - 1
    for row in sorted({0, min(context.case.tokens // 2, last - 1), last - 1}):
        cotangent = torch.zeros_like(context.output)
        cotangent[:, row] = 1
        gradient = context.compute_gradients(cotangent)["x"]
        limit = 1e-6 * context.compute_exact_gradients(cotangent).scales["x"].abs().max()
        future = torch.zeros(1) if gradient is None else gradient[:, row + 1 :].abs().max()
        if float(future) > float(limit):
            where = f"d output[:, {row}] / d x[:, {row + 1}:]"
            raise Violation(ViolationKind.VALUE, "0", f"{float(future):.3g}", where)


@family_property(
    C.CAUSAL,
    C.TOKENS,
    C.NORMALISED,
    C.UNGATED,
    on=UNMASKED,
    hint="if only one token is visible, its weight is 1",
)
def the_first_token_sees_only_itself(context: CaseContext) -> None:
    """The first output equals the equation of the first token alone, whatever follows."""
    first = context.compute_expected(context.x[:, :1])
    context.assert_close(context.output[:, :1], first.outputs[0], context.tolerance[:, :1])


@family_property(
    C.CAUSAL,
    C.TOKENS,
    C.ANY_DISTANCE,
    C.PLACELESS,
    on=compose(at_least(tokens=3), UNMASKED),
    hint="without positions, nothing may depend on the order of the past",
)
def the_order_of_the_past_does_not_matter(context: CaseContext) -> None:
    """Reordering the earlier tokens leaves the last output unchanged."""
    last = context.case.tokens - 1
    order = torch.cat([torch.arange(last).roll(1), torch.tensor([last])])
    moved = context.run(context.x[:, order])[0][:, last]
    context.assert_unchanged(moved, context.output[:, last], context.tolerance[:, last])


@family_property(
    C.ANY_MASK,
    sizes=TWO_AXES,
    on=with_values(mask_form=MaskForm.QUERY_KEY),
    about=MASK_OF_TWO_AXES,
    hint="a mask of queries and keys holds for all sequences and heads",
)
def a_mask_may_lack_axes(context: CaseContext) -> None:
    """A mask with only the axes of queries and keys applies to all sequences and heads."""
    context.call()


@family_property(
    C.ANY_MASK,
    sizes=MASK_FORMS,
    on=lambda case: case if MASK_OF_MORE_AXES.is_in(case) else None,
    about=MASK_OF_MORE_AXES,
    hint="an axis of length one stands for all sequences, heads or queries",
)
def every_form_of_mask_is_understood(context: CaseContext) -> None:
    """Any mask that broadcasts acts like the full (b, h, t, t) one."""
    _assert_taken_for_the_full_one(context)


def _assert_taken_for_the_full_one(context: CaseContext) -> None:
    """Raise Violation unless the case's mask acts like the same mask with all four axes."""
    assert context.mask is not None
    b, h, t = context.case.batch, context.case.heads, context.case.tokens
    full = (context.mask != 0).expand(b, h, t, t).contiguous()
    which = "given the same mask as (b, h, t, t)"
    context.assert_answer_unchanged(context.run(mask=full), which)


@family_property(
    C.STATED,
    C.ANY_MASK,
    sizes=SQUARES,
    on=lambda case: case if MASK_OF_TWO_AXES.is_in(case) and case.batch == case.tokens else None,
    after=(a_mask_may_lack_axes, every_form_of_mask_is_understood),
    hint="equal sizes do not say what an axis stands for",
)
def a_mask_means_the_same_where_sizes_are_equal(context: CaseContext) -> None:
    """A mask (tokens, tokens) means the same if the batch, or the heads, are as many as tokens."""
    _assert_taken_for_the_full_one(context)


@family_property(
    C.ANY_MASK,
    # Tokens in float32: a mask in float64 has numbers that are none of them.
    on=compose(MASKED, BOOL_IN_FLOAT32),
    limit=3,
    choose=select_plainest,
    about=MASK_OF_NUMBERS,
    hint="only 0 and False block, in a mask of any type",
)
def any_number_but_zero_lets_attend(context: CaseContext) -> None:
    """In a mask of any type, every number except zero permits: -1, 0.5 and 200 like 1."""
    assert context.mask is not None
    sees = context.mask != 0
    for dtype, numbers in MASK_NUMBERS.items():
        cycle = torch.arange(sees.numel()).view(sees.shape) % len(numbers)
        mask = torch.tensor(numbers, dtype=dtype)[cycle] * sees.to(dtype)
        answer = context.run(mask=mask, memory="transposed")
        which = f"with {', '.join(f'{n:g}' for n in numbers)} for True"
        context.assert_outputs_unchanged(answer, context.answer, context.expected, which)


@family_property(
    C.ANY_MASK,
    on=compose(at_least(tokens=5, batch=3), with_values(mask_form=MaskForm.QUERY_KEY)),
    after=(every_form_of_mask_is_understood,),
    sizes=({"batch": 3, "tokens": 6}, {"batch": 4, "tokens": 18, "heads": 1}),
    hint="the mask of a sequence applies to this sequence only",
)
def each_sequence_has_its_own_mask(context: CaseContext) -> None:
    """Each sequence follows its own mask: one is full, one is causal, some are padded."""
    for kinds in _list_kinds_of_masks(context.case.tokens):
        mask = torch.stack([kinds[i % len(kinds)] for i in range(context.case.batch)])[:, None]
        answer, expected = context.run(mask=mask), context.compute_expected(mask=mask)
        which = "given a mask (b, 1, t, t), other rows for each sequence"
        context.assert_matches_oracle(answer, expected, which)
    # The longest sequence first, as in batches that are sorted.
    padding = torch.ones(context.case.batch, 1, 1, context.case.tokens)
    padding[1:, ..., -2:] = 0
    got, expected = context.run(mask=padding), context.compute_expected(mask=padding)
    which = "given a mask (b, 1, 1, t): the first sequence full, the others padded at the end"
    context.assert_matches_oracle(got, expected, which)


def _list_kinds_of_masks(t: int) -> Iterator[tuple[Tensor, ...]]:
    """Yield masks for the sequences of a batch: mixed kinds, or easily mistaken for others."""
    full, causal = torch.ones(t, t), torch.ones(t, t).tril()
    padded, shorter = full.clone(), full.clone()
    padded[:, -1], shorter[:, -2:] = 0, 0
    kinds = full, causal, padded, shorter, causal.flip(0, 1), padded.flip(1)
    yield from (kinds[first:] + kinds[:first] for first in range(len(kinds)))
    yield full, full, padded
    yield causal, causal, full
    # As many ones in each row and column as the last ones, or a sum as large as that of all ones.
    shifted = (torch.arange(t)[:, None] - torch.arange(t)).remainder(t)
    yield ((shifted < 3).float(),)
    for roll in (1, 2):
        other = (shifted < 3).float()
        other[1:-1] = other[1:-1].roll(roll, 0)
        yield (other,)
    yield (2 * (shifted % 2 == 0).float(),)


@family_property(
    C.ANY_MASK,
    on=MASKED,
    after=(every_form_of_mask_is_understood,),
    limit=2,
    hint="a blocked row, NaN or not, has nothing to do with other rows",
)
def a_query_that_sees_nothing_spoils_no_other(context: CaseContext) -> None:
    """A query that may attend to nothing changes no other output, in any sequence."""
    assert context.mask is not None
    b, h, t = context.case.batch, context.case.heads, context.case.tokens
    mask = context.mask.expand(b, h, t, t).clone()
    for row in (0, t - 1):
        blocked = mask.clone()
        blocked[:1, :, row] = 0
        got, expected = context.run(mask=blocked), context.compute_expected(mask=mask)
        others = torch.ones(b, t, dtype=torch.bool)
        others[0, row] = False
        for output, exact, limit, name in zip(
            got, expected.outputs, expected.tolerances, context.output_names, strict=True
        ):
            each = others if output.dim() == 3 else others[:, None].expand(b, h, t)
            where = (
                f"{name} given a mask (b, h, t, t) that hides all from query {row} of sequence 0"
            )
            context.assert_close(output.where(each.unsqueeze(-1), exact), exact, limit, where)


@family_property(
    C.MASK,
    on=MASKED,
    limit=3,
    hint="if the mask is 0 or False, nothing of that token may enter",
    essential=True,
)
def blocked_tokens_change_nothing(context: CaseContext) -> None:
    """Changing a token changes no output that may not attend to it."""
    assert context.mask is not None
    b, h, t = context.case.batch, context.case.heads, context.case.tokens
    visible = (context.mask != 0).expand(b, h, t, t).any(1)
    for token in range(t):
        changed = context.x.clone()
        changed[:, token] = 3 - 2 * changed[:, token]
        output = context.run(changed)[0]
        rows = ~visible[:, :, token] & (torch.arange(t) != token)
        what = f"output after a change of token {token}, which is hidden from it"
        blind = output.where(rows.unsqueeze(-1), context.output)
        context.assert_unchanged(blind, context.output, context.tolerance, what)


@family_property(C.TAKES_MASK, on=with_values(mask_form=MaskForm.QUERY_KEY), limit=3)
def a_mask_of_ones_is_no_mask(context: CaseContext) -> None:
    """A mask that permits everything gives the same as no mask."""
    assert context.mask is not None
    ones = torch.ones(context.mask.shape)
    with_ones, without = context.run(mask=ones), context.run(mask=None)
    expected = context.compute_expected(mask=None)
    context.assert_outputs_unchanged(with_ones, without, expected, "given a mask of ones")


@family_property(
    C.TAKES_MASK, on=MASKED, limit=3, hint="does the module keep anything of a mask after the call?"
)
def the_mask_is_not_remembered(context: LiveContext) -> None:
    """After a call with a mask, a call without one attends to everything."""
    fresh = build_fresh_module(context)
    without = context.run_module(mask=None, adapter=fresh)
    context.run_module(adapter=fresh)
    again = context.run_module(mask=None, adapter=fresh)
    expected = context.compute_expected(mask=None)
    context.assert_outputs_unchanged(again, without, expected, "without a mask")


@family_property(
    C.MASK,
    C.ANY_KEYS,
    on=compose(at_least(tokens=2), with_values(mask_form=MaskForm.QUERY_KEY)),
    limit=3,
)
def a_causal_mask_hides_the_future(context: CaseContext) -> None:
    """With the lower triangle as mask, changing the last token changes no earlier output."""
    triangle = torch.ones(context.case.tokens, context.case.tokens).tril()
    changed = context.x.clone()
    changed[:, -1] = 3 - 2 * changed[:, -1]
    before, after = context.run(mask=triangle)[0], context.run(changed, mask=triangle)[0]
    tolerance = context.compute_expected(mask=triangle).tolerances[0][:, :-1]
    what = "output given the lower triangle as mask, after a change of the last token"
    context.assert_unchanged(after[:, :-1], before[:, :-1], tolerance, what)


@family_property(
    C.DOCUMENTS,
    C.TOKENS,
    on=compose(at_least(tokens=5), with_values(mask_form=MaskForm.BATCH_ONE_QUERY_KEY)),
    limit=4,
    hint="which tokens belong to the same document, and where does it begin?",
    essential=True,
)
def each_document_is_alone(context: CaseContext) -> None:
    """A document among others gives the same outputs as alone."""
    assert context.mask is not None
    for number in range(context.case.batch):
        first = (context.mask[number, 0] != 0).int().argmax(-1)
        for start in first.unique().tolist():
            own = first == start
            alone = context.run(context.x[number : number + 1, own], mask=None)[0][0]
            got, limit = context.output[number, own], context.tolerance[number, own]
            what = f"output of the document from token {start} on"
            context.assert_unchanged(got, alone, limit + limit, what)
