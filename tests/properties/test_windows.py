"""Windows and shared keys: each property accuses what breaks it, and nothing else."""

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import list_answers
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.contracts.variant import find_visible, get_variant
from headcheck.properties.families import ALL
from headcheck.properties.families.variants import (
    a_window_longer_than_the_sequence_hides_nothing,
    heads_that_cannot_share_evenly_are_refused,
    neighbouring_heads_share_keys_and_values,
    what_lies_before_the_window_is_invisible,
)
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.reference import PLAIN, causal_mask
from tests.submissions import holds

pytestmark = pytest.mark.filterwarnings("ignore")

BEFORE = what_lies_before_the_window_is_invisible
LONGER = a_window_longer_than_the_sequence_hides_nothing
SHARED = neighbouring_heads_share_keys_and_values
EVENLY = heads_that_cannot_share_evenly_are_refused
OWN = {"sliding_window": (BEFORE, LONGER), "grouped_query": (SHARED, EVENLY)}
RIGHT = [(slug, answer.name) for slug in OWN for answer in list_answers(BY_SLUG[slug], "right")]
WINDOW, GROUPED = (BY_SLUG[slug].contract for slug in OWN)


@pytest.mark.parametrize("slug", OWN)
def test_each_belongs_to_its_exercise_alone(slug: str) -> None:
    for prop in OWN[slug]:
        assert prop in ALL
        asked = [e for e in BY_SLUG if prop in BY_SLUG[e].properties]
        assert asked == [e for e in BY_SLUG if BY_SLUG[e].contract.has(*prop.needs)]
        assert {slug} <= {*asked} <= {slug, "llama_attention"}


@pytest.mark.sampled(("slug", "name"), RIGHT, RIGHT[::4])
def test_what_is_right_keeps_each(slug: str, name: str) -> None:
    assert all(holds(prop, BY_SLUG[slug], name) for prop in OWN[slug])


@pytest.mark.parametrize(
    ("slug", "name", "broken"),
    [
        ("sliding_window", "no_window", (BEFORE,)),
        ("sliding_window", "window_longer_by_one", (BEFORE,)),
        ("sliding_window", "window_shorter_by_one", ()),
        ("sliding_window", "both_sides", (LONGER,)),
        ("sliding_window", "on_the_wrong_side", (LONGER,)),
        ("sliding_window", "beyond_the_window", (BEFORE, LONGER)),
        ("sliding_window", "blocks", ()),
        ("sliding_window", "long_window_refused", (LONGER,)),
        ("sliding_window", "window_as_a_negative_index", (LONGER,)),
        ("sliding_window", "window_only_in_the_first_head", (BEFORE,)),
        ("sliding_window", "no_scale", (LONGER,)),
        ("grouped_query", "heads_tiled", (SHARED,)),
        ("grouped_query", "keys_tiled", (SHARED,)),
        ("grouped_query", "values_tiled", (SHARED,)),
        ("grouped_query", "index_by_remainder", (SHARED,)),
        ("grouped_query", "first_key_head_for_all", (SHARED,)),
        ("grouped_query", "keys_averaged", (SHARED,)),
        ("grouped_query", "groups_merged_the_other_way", (SHARED,)),
        ("grouped_query", "sharing_not_checked", (EVENLY,)),
        ("grouped_query", "more_keys_than_heads_taken", (EVENLY,)),
        ("grouped_query", "no_scale", ()),
        ("grouped_query", "no_mask", ()),
    ],
)
def test_what_is_wrong_breaks_what_it_should(
    slug: str, name: str, broken: tuple[Property, ...]
) -> None:
    assert tuple(prop for prop in OWN[slug] if not holds(prop, BY_SLUG[slug], name)) == broken


@pytest.mark.parametrize("tokens", [1, 2, 5])
@pytest.mark.parametrize("window", [1, 2, 4, 99])
def test_who_is_seen_is_what_the_statement_says(tokens: int, window: int) -> None:
    case = Case(tokens=tokens, context_length=tokens, window=window)
    visible = find_visible(WINDOW, case, tokens)
    assert visible is not None
    expected = [[0 <= i - j < window for j in range(tokens)] for i in range(tokens)]
    assert visible.tolist() == expected
    plain = find_visible(GROUPED, case, tokens)
    assert plain is not None and torch.equal(plain, causal_mask(tokens))
    assert get_variant(WINDOW, case) == get_variant(GROUPED, case) == PLAIN


@pytest.mark.parametrize(
    ("heads", "group", "kv_heads"),
    [(4, 2, 2), (6, 3, 2), (6, 4, 2), (6, 99, 1), (5, 2, 5), (1, 99, 1), (6, 0, 3), (5, 0, 1)],
)
def test_a_case_has_as_many_heads_in_a_group_as_can_share(
    heads: int, group: int, kv_heads: int
) -> None:
    fitted = GROUPED.fit(Case(heads=heads, group=group))
    assert fitted.kv_heads == kv_heads
    assert GROUPED.fit(fitted) == fitted
    assert WINDOW.fit(Case(heads=heads, group=group)).kv_heads == heads


def test_a_case_without_a_window_sees_half_of_its_tokens() -> None:
    assert WINDOW.fit(Case(tokens=7, context_length=9)).window == 4
    assert WINDOW.fit(Case(tokens=7, context_length=7, window=99)).window == 99
    assert GROUPED.fit(Case(tokens=7, context_length=7, window=99)).window == 0


@pytest.mark.parametrize("slug", OWN)
def test_cases_have_windows_and_groups_of_all_kinds(slug: str) -> None:
    cases = generate_case_set(BY_SLUG[slug].contract, BY_SLUG[slug].cases)
    if slug == "sliding_window":
        assert {case.window >= case.tokens for case in cases} == {True, False}
        assert 1 in {case.window for case in cases}
    else:
        found = {(case.kv_heads == 1, case.kv_heads == case.heads) for case in cases}
        assert {(True, False), (False, True), (False, False)} <= found
