"""The usual depth finds every wrong answer but those that nobody writes by mistake."""

import pytest

from benchmarks.depth import compare_depths, find_unexpected, format_table, load_made_up
from headcheck.exercises import BY_SLUG, SERIES
from headcheck.exercises.answers import load_bank


def test_what_is_listed_as_made_up_exists() -> None:
    there = {f"{slug}/{a.name}" for slug in SERIES for a in load_bank(BY_SLUG[slug]) if a.is_wrong}
    assert load_made_up() <= there


@pytest.mark.whole
@pytest.mark.parametrize("slug", SERIES)
def test_only_a_thorough_check_finds_what_is_listed(slug: str) -> None:
    compared = [compare_depths(a) for a in load_bank(BY_SLUG[slug]) if a.is_wrong]
    assert not find_unexpected(compared, load_made_up())
    assert all(each.thorough for each in compared)
    rows = list(format_table([BY_SLUG[slug]], compared))
    assert all(row.count("|") == 7 for row in rows)
