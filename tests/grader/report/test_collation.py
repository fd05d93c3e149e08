"""Names in the order in which people look for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.report.collation import collate, fold_accents


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


@given(st.lists(st.text()))
def test_any_texts_have_an_order_and_different_ones_different_keys(texts: list[str]) -> None:
    assert len(set(map(collate, texts))) == len(set(texts))
    assert sorted(sorted(texts, key=collate), key=collate) == sorted(texts, key=collate)


def test_a_number_of_thousands_of_digits_is_sorted() -> None:
    assert collate("9") < collate("1" + "0" * 10_000)
