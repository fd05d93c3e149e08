"""Causal queries that are the last of the tokens whose keys are given."""

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.bounds.gradients import Loss, compute_gradients, compute_role_gradients
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.families import ALL
from headcheck.properties.families.alignment import (
    a_single_query_sees_every_key,
    many_keys_are_aligned_too,
    query_key_and_value_get_their_gradients,
    the_last_queries_alone_get_the_last_rows,
    the_last_query_stands_at_the_last_key,
)
from headcheck.properties.families.cross import keys_and_values_come_from_their_own_tokens
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import OF_SOME_CONTRACTS, Mistake
from headcheck.properties.mistakes.worked_example import work_example
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters, causal_lower_right_mask, causal_mask
from tests.properties.mistakes.naming import find_names
from tests.submissions import accuse, assert_asked_with

CONTRACT = BY_SLUG["causal_alignment"].contract
CASE = CONTRACT.fit(Case(batch=2, tokens=4, heads=2, head_dim=3, sharpness=2, seed=5))
END, ALONE = the_last_query_stands_at_the_last_key, a_single_query_sees_every_key
ROWS, MANY = the_last_queries_alone_get_the_last_rows, many_keys_are_aligned_too
GRADIENTS = query_key_and_value_get_their_gradients
OWN = keys_and_values_come_from_their_own_tokens
ALIGNMENT = [each for each in OF_SOME_CONTRACTS if Capability.ALIGNED in each.needs]
ABOUT_IT = (OWN, END, ALONE, ROWS, MANY, GRADIENTS)


def attend(query: Tensor, key: Tensor, value: Tensor, begin: int | None = None) -> Tensor:
    q, k = query.shape[-2], key.shape[-2]
    seen = torch.ones(q, k, dtype=torch.bool).tril(k - q if begin is None else begin)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    mixed: Tensor = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value
    return mixed


def at_the_top_left(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key, value, 0)


def alone_at_the_top_left(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key, value, 0 if query.shape[-2] == 1 else None)


def only_few(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    many = max(0, key.shape[-2] - 99)
    return attend(query, key[..., many:, :], value[..., many:, :])


def other_keys_as_values(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key, key)


def keys_cut_off(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key if torch.equal(query, key) else key.detach(), value)


def test_each_claim_is_made_of_aligned_attention_alone() -> None:
    assert set(ABOUT_IT) <= set(ALL)
    assert_asked_with(Capability.ALIGNED, {END, ALONE, ROWS, MANY})


LONG = CONTRACT.fit(Case(tokens=3, heads=2))


@pytest.mark.parametrize(
    ("function", "broken"),
    [
        (attend, set()),
        (at_the_top_left, {END, ALONE, ROWS, MANY, GRADIENTS}),
        (alone_at_the_top_left, {ALONE, ROWS}),
        (only_few, {MANY}),
        (other_keys_as_values, {OWN, END, ALONE, MANY, GRADIENTS}),
        (keys_cut_off, {GRADIENTS}),
    ],
)
def test_each_claim_accuses_what_breaks_it(function: object, broken: set[Property]) -> None:
    cases = {prop: LONG if prop is MANY else CASE for prop in ABOUT_IT}
    harness = Harness(make_subject({CONTRACT.name: function}), CONTRACT)
    assert {p for p, case in cases.items() if accuse(p, harness, [case])} == broken


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (1, 5), (3, 5)])
def test_visibility_ends_with_both(queries: int, keys: int) -> None:
    visible = find_visible(CONTRACT, CASE, queries, keys=keys)
    assert visible is not None
    assert torch.equal(visible, causal_lower_right_mask(queries, keys))
    assert torch.equal(visible, causal_mask(keys)[keys - queries :])


def test_gradients_of_roles_add_up_to_those_of_one_sequence() -> None:
    x, cotangent = (draw_normal(CASE, stream, 2, 4, 6) for stream in ("x", "cotangent"))
    visible, eye = causal_mask(4), torch.eye(6, dtype=torch.float64)
    apart = compute_role_gradients(CONTRACT, CASE, (x, x, x), visible, cotangent)
    plain = Parameters(W_q=eye, W_k=eye, W_v=eye)
    whole = compute_gradients(CONTRACT, CASE, x, plain, visible, Loss(cotangent))
    for kind, of_x in ((apart.values, whole.values["x"]), (apart.scales, whole.scales["x"])):
        torch.testing.assert_close(sum(kind.values()), of_x)
    assert apart.growth == whole.growth


def test_gradients_of_more_keys_are_those_of_autograd() -> None:
    x, cotangent = (draw_normal(CASE, stream, 2, 4, 6) for stream in ("x", "cotangent"))
    key, value = (draw_normal(CASE, stream, 2, 7, 6) for stream in ("x2", "W_k"))
    visible = causal_lower_right_mask(4, 7)
    exact = compute_role_gradients(CONTRACT, CASE, (x, key, value), visible, cotangent)
    leaves = [t.clone().requires_grad_() for t in (x, key, value)]
    heads = [t.unflatten(-1, (2, 3)).transpose(1, 2) for t in leaves]
    (attend(*heads).transpose(1, 2).flatten(2) * cotangent).sum().backward()
    for leaf, name in zip(leaves, ("query", "key", "value"), strict=True):
        torch.testing.assert_close(leaf.grad, exact.values[name])
        assert bool((exact.values[name].abs() <= exact.scales[name] * (1 + 1e-12)).all())


@pytest.mark.parametrize("each", ALIGNMENT, ids=lambda each: each.name)
def test_each_mistake_is_named_and_shown(each: Mistake) -> None:
    (way,) = each.variants
    assert find_names(way, CONTRACT) == [each.name]
    shown = work_example(CONTRACT, each)
    assert shown is not None
    assert shown.sizes == "2 tokens, 3 keys, queries of width 4"
