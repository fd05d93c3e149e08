"""A backward of attention that recomputes the weights block by block.

With S the scaled scores, L their log-sum-exp, P = exp(S - L) and dO the gradient of the output O:

    D = rowsum(dO ∘ O),  dP = dO Vᵀ,  dS = P ∘ (dP - D)
    dQ = scale dS K,  dK = scale dSᵀ Q,  dV = Pᵀ dO

Each equation holds for any part of the queries and of the keys, so only Q, K, V, O and L have to be
kept.

Sources: Dao et al. 2022, algorithm 4 (arXiv:2205.14135); Dao 2023, section 3.1 (arXiv:2307.08691).
"""

import functools
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.bounds.gradients import ROLES
from headcheck.properties.cases.case_tensors import make_other_tokens
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.alignment import (
    compute_exact_roles,
    query_key_and_value_get_their_gradients,
)
from headcheck.properties.families.assertions import assert_fewer_numbers
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.cross import keys_and_values_come_from_their_own_tokens
from headcheck.properties.families.gradients import assert_close_to_exact, assert_same_again
from headcheck.properties.families.online import place_far_apart
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import InputContent

gradient_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
purity_property = PropertyFamily(PropertyGroup.PURITY, FORM)
OWN = (it_equals_the_equation, keys_and_values_come_from_their_own_tokens)
RIGHT = (query_key_and_value_get_their_gradients,)
SOME_TOKENS = at_least(tokens=5)
MANY = with_values(batch=1, tokens=192, context_length=192, d_in=2, heads=1, head_dim=2, block=16)
"""a case with so many queries and keys that their scores outnumber everything else, in many
blocks"""
Roles = tuple[Tensor, Tensor, Tensor]


recomputed_property = functools.partial(
    gradient_property, C.RECOMPUTED, C.CROSS, after=RIGHT, limit=2
)


@recomputed_property(
    on=SOME_TOKENS, hint="which block is the last one, of the queries and of the keys?"
)
def every_block_size_gives_the_same_gradients(context: LiveContext) -> None:
    """Gradients are right with blocks of any size: one key, all but one, all, or more."""
    tokens = context.case.tokens
    for block in (1, 2, tokens - 1, tokens, tokens + 1, 3 * tokens):
        other = context.with_case(replace(context.case, block=block))
        _assert_gradients_right(other, _make_roles(context, tokens + 2))


@gradient_property(
    C.CAUSAL_OPTION,
    C.CROSS,
    on=compose(SOME_TOKENS, with_values(causal=True)),
    after=RIGHT,
    limit=2,
    hint="which weights are zero, also in the backward?",
)
def gradients_are_right_where_later_tokens_are_hidden(context: LiveContext) -> None:
    """With a causal mask, gradients equal those of the equation, with blocks of any size."""
    tokens = context.case.tokens
    for longer, blocks in ((0, (2, tokens - 1)), (3, (1, 2, 3 * tokens))):
        roles = _make_roles(context, tokens + longer)
        for block in blocks:
            other = context.with_case(replace(context.case, block=block))
            _assert_gradients_right(other, roles)


@recomputed_property(
    C.STABLE,
    on=compose(at_least(tokens=5, head_dim=2), with_values(content=InputContent.NORMAL)),
    hint="what is subtracted before an exponential is taken again?",
)
def gradients_stay_right_far_above_or_below(context: LiveContext) -> None:
    """Gradients are right even if the scores of one block, or of all, are in the thousands."""
    half = context.case.tokens // 2
    for first, last in ((-1, 0), (0, 1), (-1, -1), (1, 1)):
        roles = place_far_apart(context, torch.tensor([first] * half + [last] * half))
        other = context.with_case(replace(context.case, block=half))
        _assert_gradients_right(other, roles)


@recomputed_property(
    on=SOME_TOKENS, hint="does the backward write into something that it will need again?"
)
def the_graph_may_be_gone_through_again(context: LiveContext) -> None:
    """A second backward through the same retained graph gives the same gradients."""
    roles = _make_roles(context, context.case.tokens + 2)
    adapter = context.adapter
    once, again = (adapter.vjp_apart(roles, context.cotangent, times=n) for n in (1, 2))
    for name, first, second in zip(ROLES, once, again, strict=True):
        assert_same_again(first, second, name)


memory_property = functools.partial(
    purity_property, C.RECOMPUTED, C.CROSS, on=MANY, limit=1, dtypes=("float64",), essential=True
)


@memory_property(after=OWN, hint="which attributes are saved besides query, key, value and output?")
def it_keeps_fewer_numbers_than_scores(context: LiveContext) -> None:
    """Between forward and backward it keeps fewer numbers than there are scores."""
    for mode in _list_modes(context):
        kept, _ = mode.compute_once(count_held)
        _assert_fewer_than_scores(mode, kept, "between forward and backward")


@memory_property(
    after=(*OWN, it_keeps_fewer_numbers_than_scores),
    hint="which tensors have an axis for all queries and one for all keys?",
)
def its_backward_never_holds_all_scores(context: LiveContext) -> None:
    """With small blocks, forward and backward never hold as many numbers as there are scores."""
    for mode in _list_modes(context):
        _, held = mode.compute_once(count_held)
        _assert_fewer_than_scores(mode, held, "in forward and backward")


def _make_roles(context: LiveContext, keys: int) -> Roles:
    key, value = make_other_tokens(context.case, context.contract, keys)
    return context.x, key, value


def _assert_gradients_right(context: LiveContext, roles: Roles) -> None:
    """Raise Violation unless the gradients of these queries, keys and values are right."""
    cotangent, exact = compute_exact_roles(context, roles)
    context.adapter.set(context.parameters)
    found = context.adapter.vjp_apart(roles, cotangent)
    assert_close_to_exact(context, dict(zip(ROLES, found, strict=True)), exact, ROLES)


def _list_modes(context: LiveContext) -> Sequence[LiveContext]:
    """Return the context with nothing hidden, and, if possible, with later tokens hidden."""
    if not context.contract.has(C.CAUSAL_OPTION):
        return (context,)
    return context, context.with_case(replace(context.case, causal=True))


def count_held(context: CaseContext) -> tuple[int, int]:
    """Return how many numbers are kept for the backward, and the peak in forward and backward."""
    assert isinstance(context, LiveContext)
    return context.adapter.count_held_apart(
        _make_roles(context, context.case.tokens), context.cotangent
    )


def _assert_fewer_than_scores(context: LiveContext, numbers: int, when: str) -> None:
    count = context.case.tokens
    hidden = ", later tokens hidden" * context.case.causal
    sizes = f"{count} queries and {count} keys in blocks of {context.case.block}{hidden}"
    assert_fewer_numbers(numbers, count * count, sizes, when)
