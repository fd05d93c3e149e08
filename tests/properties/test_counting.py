"""Numerals agree with their nouns and verbs."""

from headcheck.properties.counting import count, count_share


def test_a_noun_is_in_the_plural_unless_there_is_one() -> None:
    assert [count(n, "token") for n in (0, 1, 2)] == ["0 tokens", "1 token", "2 tokens"]


def test_a_part_agrees_with_its_verb() -> None:
    assert count_share(2, 3, "element") == "2 of 3 elements are"
    assert count_share(1, 3, "element") == "1 of 3 elements is"
    assert count_share(1, 1, "element") == "the only element is"
