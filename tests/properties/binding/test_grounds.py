"""The table of what accusations rest on is the one that readers see."""

from pathlib import Path

from headcheck.properties.binding.grounds import GROUNDS, write_table

PAGE = Path(__file__).parents[3] / "docs" / "recognition.md"


def test_the_page_has_the_table_of_the_code() -> None:
    assert write_table() in PAGE.read_text(encoding="utf-8")


def test_each_ground_is_said_in_its_own_words() -> None:
    said = [ground.sentence for ground in GROUNDS]
    assert len({*said}) == len(said) == len({ground.when for ground in GROUNDS})
    assert all(ground.say(*"abc"[: ground.sentence.count("{}")]) for ground in GROUNDS)
