"""Attention that processes keys in blocks: online softmax, and the log-sum-exp that it computes.

Sources: Milakov & Gimelshein 2018 (arXiv:1805.02867); Rabe & Staats 2021 (arXiv:2112.05682); Dao et
al. 2022 (arXiv:2205.14135).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import Expected, compute_expected
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_tensors import draw_normal, make_other_tokens, round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import assert_fewer_numbers
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.cross import keys_and_values_come_from_their_own_tokens
from headcheck.properties.families.gradients import (
    assert_close_to_exact,
    the_gradient_of_the_input_is_right,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import InputContent

value_property = PropertyFamily(PropertyGroup.VALUES, FORM)
scale_property = PropertyFamily(PropertyGroup.SCALE, FORM)
gradient_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
purity_property = PropertyFamily(PropertyGroup.PURITY, FORM)
CORRECT = (it_equals_the_equation,)
SOME_TOKENS = at_least(tokens=5)
DISTANCE = 4000.0
"""the distance between scores at which the exponential of the negative distance is zero"""
MANY = with_values(batch=1, tokens=64, context_length=64, d_in=2, heads=1, head_dim=2, block=16)
"""a case with so many queries that their scores outnumber everything else, with enough keys for
many blocks, and with heads so narrow that the results of all blocks may be stacked"""
MANY_KEYS = 512


@value_property(
    C.BLOCKED,
    on=SOME_TOKENS,
    limit=3,
    hint="which block is the last one, and how many keys has it?",
)
def every_block_size_gives_the_same(context: CaseContext) -> None:
    """Blocks of any size give the same output: one key, all but one, all, or more."""
    tokens = context.case.tokens
    for block in (1, 2, tokens - 1, tokens, tokens + 1, 3 * tokens):
        other = context.with_case(replace(context.case, block=block))
        context.assert_answer_unchanged(other.run(context.x, context.parameters))


@value_property(
    C.LOGSUMEXP,
    C.CROSS,
    on=SOME_TOKENS,
    limit=3,
    hint="with a single key, the log-sum-exp is its scaled score",
)
def parts_are_merged_by_their_log_sum_exp(context: LiveContext) -> None:
    """The outputs of two parts of the keys, merged by log-sum-exp, equal the output of all keys."""
    others = make_other_tokens(context.case, context.contract, context.case.tokens)
    whole = _compute_expected(context, context.x, others)
    for first in (1, context.case.tokens // 2):
        parts = (slice(0, first), slice(first, None))
        answers = [_attend(context, context.x, [t[:, part] for t in others]) for part in parts]
        bounds = [
            _compute_expected(context, context.x, [t[:, part] for t in others]).tolerances
            for part in parts
        ]
        _assert_merged(context, answers, bounds, whole)


@scale_property(
    C.BLOCKED,
    C.CROSS,
    C.STABLE,
    after=(*CORRECT, keys_and_values_come_from_their_own_tokens),
    on=compose(at_least(tokens=5, head_dim=2), with_values(content=InputContent.NORMAL)),
    limit=3,
    hint="relative to which maximum are the earlier sums?",
)
def blocks_may_be_far_above_or_below_others(context: LiveContext) -> None:
    """The output is right even if the scores of one block, or of all, are in the thousands."""
    case = context.case
    half = case.tokens // 2
    for first, last in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (1, 1)):
        query, key, value = place_far_apart(context, torch.tensor([first] * half + [last] * half))
        expected = _compute_expected(context, query, (key, value))
        for block in (1, 2, half, 2 * half):
            other = context.with_case(replace(case, block=block))
            answer = _attend(other, query, (key, value))
            context.assert_matches_oracle(answer, expected)


@gradient_property(
    C.LOGSUMEXP,
    on=SOME_TOKENS,
    after=(the_gradient_of_the_input_is_right,),
    limit=2,
    hint="is something cut from the graph on the way to the log-sum-exp?",
)
def the_gradient_of_the_log_sum_exp_is_right(context: CaseContext) -> None:
    """A loss on the log-sum-exp has the gradients of the equation."""
    shape = context.expected.outputs[1].shape
    cotangent = round_to_dtype(draw_normal(context.case, "x2", *shape), context.case)
    own = context.compute_gradients(cotangent, output=1)
    exact = context.compute_exact_gradients(cotangent, output=1)
    assert_close_to_exact(context, own, exact, ["x"])


@purity_property(
    C.BLOCKED,
    C.CROSS,
    on=MANY,
    after=(*CORRECT, keys_and_values_come_from_their_own_tokens),
    limit=1,
    dtypes=("float64",),
    essential=True,
    hint="which tensors have an axis for all queries and one for all keys?",
)
def it_never_holds_all_scores(context: LiveContext) -> None:
    """With many keys in small blocks, it never holds as many numbers as there are scores."""
    others = make_other_tokens(context.case, context.contract, MANY_KEYS)
    held = context.adapter.forward_apart(context.x, others, CallOptions(counted=True)).held
    sizes = f"{context.case.tokens} queries and {MANY_KEYS} keys in blocks of {context.case.block}"
    assert_fewer_numbers(held, context.case.tokens * MANY_KEYS, sizes)


def _attend(context: CaseContext, x: Tensor, others: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the outputs of a call with these keys and values. Raises Violation."""
    assert isinstance(context, LiveContext)
    context.adapter.set(context.parameters)
    result = context.adapter.forward_apart(x, others)
    context.check_form(result, x)
    return tuple(output.double() for output in result.outputs)


def _compute_expected(context: CaseContext, x: Tensor, others: Sequence[Tensor]) -> Expected:
    return compute_expected(
        context.contract, context.case, x, context.parameters, None, tuple(others)
    )


def _assert_merged(
    context: LiveContext,
    answers: Sequence[tuple[Tensor, ...]],
    bounds: Sequence[tuple[Tolerance, ...]],
    whole: Expected,
) -> None:
    """Raise Violation unless the merged answers for two parts equal the answer for the whole.

    An error e of a part's log-sum-exp changes its share, and so the average, by at most a factor of
    e.
    """
    sums = torch.stack([lse for _, lse in answers])
    shares = [_spread(share, context) for share in sums.softmax(0)]
    outputs = [output for output, _ in answers]
    merged = sum(share * output for share, output in zip(shares, outputs, strict=True))
    own, of_sum = whole.tolerances
    apart = (outputs[0] - outputs[1]).abs() * shares[0] * shares[1]
    for share, (of_output, of_lse) in zip(shares, bounds, strict=True):
        moved = of_lse.map(lambda limit: _spread(limit, context))
        own = own + _times(of_output, share) + _times(moved, apart)
        of_sum = of_sum + of_lse
    context.assert_close(torch.as_tensor(merged), whole.outputs[0], own, "output of merged parts")
    total = sums.logsumexp(0)
    context.assert_close(total, whole.outputs[1], of_sum, "logsumexp of merged parts")


def _times(tolerance: Tolerance, factor: Tensor) -> Tolerance:
    return tolerance.map(lambda limit: limit * factor)


def _spread(per_head: Tensor, context: CaseContext) -> Tensor:
    """Repeat each head's numbers for all of its columns: from (b, h, t) to (b, t, width)."""
    return per_head.transpose(1, 2).repeat_interleave(context.case.head_dim, dim=2)


def place_far_apart(context: CaseContext, levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values whose scores are at these multiples of the distance.

    The first coordinate of each head sets the level; the other coordinates are drawn as usual.
    """
    case = context.case
    key, value = make_other_tokens(case, context.contract, len(levels))
    query, width = context.x.clone(), case.head_dim
    query[..., ::width] = 1.0
    key[..., ::width] = (levels * DISTANCE * width**0.5)[:, None]
    return query, round_to_dtype(key, case), value
