"""Names in the order in which people look for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.grader.report.collation import collate, fold_accents


def test_accents_and_case_count_last_and_numbers_by_size() -> None:
    order = [
        *("ada", "Ada", "Ádám", "Åsa", "Bob", "Čech", "Émile", "emile2", "emile10", "Groß"),
        *("Łukasz", "Øystein", "Özgür", "Šárka", "Zoë", "李小龍"),
    ]
    assert sorted(sorted(order), key=collate) == [
        *("Ada", "ada", "Ádám", "Åsa", "Bob", "Čech", "Émile", "emile2", "emile10", "Groß"),
        *("Łukasz", "Øystein", "Özgür", "Šárka", "Zoë", "李小龍"),
    ]


@pytest.mark.parametrize(
    ("text", "folded"),
    [("Šárka Groß", "sarka gross"), ("ŁØÆ", "loae"), ("e\u0301", "e"), ("李", "李"), ("", "")],
)
def test_folded_names_have_no_accents(text: str, folded: str) -> None:
    assert fold_accents(text) == folded


@given(st.permutations(["ada", "Ada", "Ádám", "Æ", "ae", "a1", "a10", "a01", ""]), st.text())
def test_any_names_have_one_order(names: list[str], other: str) -> None:
    alphabetical = sorted([*sorted(names), other], key=collate)
    assert sorted([other, *names], key=collate) == alphabetical


@given(st.sets(st.text()))
def test_different_names_have_different_keys(names: set[str]) -> None:
    assert len(set(map(collate, names))) == len(names)


def test_a_number_of_thousands_of_digits_is_sorted() -> None:
    assert collate("9") < collate("1" + "0" * 10_000)
