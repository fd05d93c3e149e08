"""docs/invariants.md says what the code says."""

from pathlib import Path

from properties import catalogue
from properties.invariants import ALL

PAGE = Path(__file__).parents[2] / "docs" / "invariants.md"


def test_the_page_is_up_to_date() -> None:
    again = "python -m properties.catalogue > docs/invariants.md"
    assert PAGE.read_text(encoding="utf-8") == catalogue.page(), f"make it again: {again}"


def test_every_invariant_has_one_row() -> None:
    rows = [line.split("`")[1] for line in catalogue.page().splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(each.name for each in ALL)
