"""Queries are the last tokens of a longer sequence of keys: the causal mask is aligned at the end.

Query i of q has the position of key k - q + i of k, as in decoding with a cache. Libraries differ:
with torch's `is_causal`, as with a mask made for a square, it has the position of key i
(pytorch/pytorch#103082).
"""

import functools

from torch import Tensor

from headcheck.properties.bounds.gradients import ROLES, ExactGradients, compute_role_gradients
from headcheck.properties.cases.case_tensors import draw_normal, make_other_tokens, round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.cross import (
    assert_equation,
    keys_and_values_come_from_their_own_tokens,
)
from headcheck.properties.families.gradients import (
    assert_close_to_exact,
    the_gradient_of_the_input_is_right,
)
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import MaskForm

gradient_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
UNMASKED = compose(at_least(tokens=3), with_values(mask_form=MaskForm.NONE))
LONG = (
    {"batch": 1, "tokens": 3, "d_in": 2, "heads": 2, "head_dim": 1, "sharpness": 2},
    {"batch": 1, "tokens": 130, "d_in": 3, "heads": 1, "head_dim": 3, "sharpness": 2},
    {"batch": 1, "tokens": 270, "d_in": 3, "heads": 1, "head_dim": 2, "sharpness": 2},
)
MANY = 137
"""how many keys precede the queries in a long case"""
MOST = 40
"""the largest number of keys that precede the queries in other cases"""
HINT = "at which key does query i stand, if there are more keys?"
aligned_property = functools.partial(
    PropertyFamily(PropertyGroup.MASK, FORM),
    C.ALIGNED,
    on=compose(UNMASKED, with_values(causal=True)),
    after=(keys_and_values_come_from_their_own_tokens,),
)


@aligned_property(limit=4, hint=HINT, essential=True)
def the_last_query_stands_at_the_last_key(context: LiveContext) -> None:
    """The queries are the last tokens: each sees all keys up to its position from the end."""
    for earlier in (1, 3, min(context.case.tokens, MOST)):
        assert_equation(context, context.case.tokens + earlier)


@aligned_property(limit=2, hint="a decoded token is a single query with many keys")
def a_single_query_sees_every_key(context: LiveContext) -> None:
    """A single query is the last token: it sees every key."""
    for keys in (1, 2, 5):
        assert_equation(context, keys, context.x[:, -1:])


@aligned_property(limit=4, hint=HINT)
def the_last_queries_alone_get_the_last_rows(context: LiveContext) -> None:
    """The last queries give the same outputs alone as together with all queries."""
    others = (context.x,) * (len(context.contract.call_form.inputs) - 1)
    for queries in sorted({1, context.case.tokens // 2, context.case.tokens - 1} - {0}):
        rows = slice(-queries, None)
        context.adapter.set(context.parameters)
        result = context.adapter.forward_apart(context.x[:, rows], others)
        output, whole = result.outputs[0].double(), context.output
        what = f"output of the last {queries} of {context.case.tokens}"
        tolerance = context.tolerance[:, rows]
        context.assert_unchanged(output, whole[:, rows], tolerance, what)


@aligned_property(
    after=(the_last_query_stands_at_the_last_key,),
    sizes=LONG,
    hint="does the code do anything differently for many keys?",
)
def many_keys_are_aligned_too(context: LiveContext) -> None:
    """Each query is also at the right position if hundreds of keys come before the queries."""
    assert_equation(context, context.case.tokens + MANY)


@gradient_property(
    C.ROLES,
    C.CROSS,
    on=UNMASKED,
    after=(keys_and_values_come_from_their_own_tokens, the_gradient_of_the_input_is_right),
    limit=3,
    hint="does something cut or change gradients: detach(), a clamp, a hook?",
)
def query_key_and_value_get_their_gradients(context: LiveContext) -> None:
    """Query, key and value get the gradients of the equation, even if only one requires them."""
    case, tokens = context.case, context.case.tokens + 2
    key, value = make_other_tokens(case, context.contract, tokens)
    roles = context.x, key, value
    cotangent, exact = compute_exact_roles(context, roles)
    context.adapter.set(context.parameters)
    together = context.adapter.vjp_apart(roles, cotangent)
    alone = [context.adapter.vjp_apart(roles, cotangent, only=n)[n] for n in range(len(ROLES))]
    for found in (together, alone):
        own = dict(zip(ROLES, found, strict=True))
        assert_close_to_exact(context, own, exact, ROLES)


def compute_exact_roles(
    context: LiveContext, roles: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, ExactGradients]:
    """Return a cotangent, and the exact gradients of queries, keys and values for it."""
    query, key, _ = roles
    cotangent = round_to_dtype(draw_normal(context.case, "cotangent", *query.shape), context.case)
    visible = context.may_attend(query.shape[1], None, key.shape[1])
    asked = context.contract, context.case, roles
    return cotangent, compute_role_gradients(*asked, visible, cotangent)
