"""The sizes that an implementation has are kept by every case, and the nearest is taken."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.strategies import cases
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import BadSizes, parse_sizes
from tests.properties.contracts import MULTI_HEAD, SLUGS, assert_allowed, get_contract

SQUARE = BY_SLUG["causal_self_attention"].contract
TEXTS = (
    "head_dim=even tokens<=64 heads=1,2,4",
    "d_out%8",
    "head_dim%16 heads<=3",
    "tokens%8 context_length<=16",
    "tokens>=3 d_in=even",
)
PAIRS = list(itertools.product(SLUGS, TEXTS))
"""contracts and rules; one of nineteen meets every contract and all rules"""


@pytest.mark.sampled(("slug", "text"), PAIRS, PAIRS[::19])
@given(data=st.data())
def test_every_case_keeps_the_sizes_and_the_contract(
    slug: str, text: str, data: st.DataObject
) -> None:
    rules, contract = parse_sizes(text), get_contract(slug)
    try:
        limited = contract.with_sizes(rules)
    except BadSizes:
        assert contract.sizes is not None  # these are fixed
        return
    case = data.draw(cases(contract, max_tokens=70, max_heads=9, sizes=rules))
    assert rules.allow(case)
    assert_allowed(case, contract)
    assert limited.fit(case) == case


def test_the_case_set_keeps_the_sizes() -> None:
    rules = parse_sizes("head_dim=even heads=1,2,4 tokens<=8")
    made = generate_case_set(MULTI_HEAD.with_sizes(rules))
    assert len(made) == 24
    assert all(rules.allow(case) for case in made)
    assert {case.heads for case in made} == {1, 2, 4}


@pytest.mark.parametrize(
    ("text", "sizes", "nearest"),
    [
        ("head_dim=even", {"heads": 3, "head_dim": 7}, {"heads": 3, "head_dim": 8}),
        ("heads=1,2,4", {"heads": 5, "head_dim": 3}, {"heads": 4, "head_dim": 3}),
        ("d_out%8", {"heads": 4, "head_dim": 3}, {"heads": 4, "head_dim": 4}),
        ("tokens<=64", {"tokens": 160, "context_length": 200}, {"tokens": 64}),
        ("context_length<=9", {"tokens": 12, "context_length": 12}, {"tokens": 9}),
        ("tokens%8", {"tokens": 3, "context_length": 3}, {"tokens": 8, "context_length": 8}),
        ("batch>=2", {"batch": 1}, {"batch": 2}),
    ],
)
def test_the_nearest_case_is_taken(
    text: str, sizes: dict[str, Any], nearest: dict[str, int]
) -> None:
    case = MULTI_HEAD.with_sizes(parse_sizes(text)).fit(Case(**sizes))
    assert {name: getattr(case, name) for name in nearest} == nearest


def test_one_width_for_all_keeps_the_rules_of_both() -> None:
    case = SQUARE.with_sizes(parse_sizes("d_in%6 d_out=even")).fit(Case(heads=2, head_dim=4))
    assert case.d_in == case.d_out and case.d_in % 6 == 0


def test_rules_read_as_they_are_written() -> None:
    text = "head_dim=even heads=1,2,4 d_out%8 tokens<=64 batch>=2"
    assert str(parse_sizes(text)) == text
    assert str(parse_sizes("")) == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head_dim", "`head_dim` is no rule for a size: write rules such as head_dim=even"),
        ("head_dim=odd", "is no rule for a size"),
        ("head_dim%even", "is no rule for a size"),
        ("heads<=1,2", "is no rule for a size"),
        ("width=3", "`width` is no size; there are batch, tokens"),
        ("heads=0", "`heads=0`: a size lies between 1 and"),
        ("tokens<=99999999999999", "a size lies between 1 and"),
    ],
)
def test_what_is_no_rule_says_why(text: str, message: str) -> None:
    with pytest.raises(BadSizes) as problem:
        parse_sizes(text)
    assert message in str(problem.value) and "\n" not in str(problem.value)


@pytest.mark.parametrize("text", ["heads=2 head_dim=3 d_out=7", "tokens>=9 context_length<=8"])
def test_sizes_that_no_case_has_are_refused(text: str) -> None:
    with pytest.raises(BadSizes, match="MultiHeadAttention has no sizes that keep `"):
        MULTI_HEAD.with_sizes(parse_sizes(text))


def test_a_width_of_latents_is_fitted_where_there_are_any() -> None:
    asked = BY_SLUG["latent_attention"].contract.with_sizes(parse_sizes("d_latent=even"))
    assert [asked.fit(Case(d_latent=n, rope_dim=3)).d_latent for n in (0, 1, 2, 5)] == [2, 2, 2, 6]
    assert asked.fit(Case(d_latent=5, rope_dim=3)).rope_dim == 4
    plain = BY_SLUG["rope"].contract.with_sizes(parse_sizes("d_latent=even"))
    assert plain.fit(Case(d_latent=5)).d_latent == 0


def test_windows_and_shared_heads_are_fitted_where_there_are_any() -> None:
    windowed = BY_SLUG["sliding_window"].contract.with_sizes(parse_sizes("window>=2"))
    cases = (Case(tokens=9, context_length=9, window=n) for n in (1, 3))
    assert [windowed.fit(case).window for case in cases] == [2, 3]
    assert windowed.fit(Case(tokens=1, context_length=1)).window == 2
    shared = BY_SLUG["grouped_query"].contract.with_sizes(parse_sizes("kv_heads=1"))
    fitted = [shared.fit(Case(heads=heads, group=2)) for heads in (1, 4, 6)]
    assert [case.kv_heads for case in fitted] == [1, 1, 1]
    two = BY_SLUG["grouped_query"].contract.with_sizes(parse_sizes("kv_heads=2"))
    assert [two.fit(Case(heads=heads)).kv_heads for heads in (1, 3, 4)] == [2, 2, 2]
