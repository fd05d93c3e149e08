"""docs/invariants.md says what the code says."""

from pathlib import Path

from properties import page
from properties.families import ALL

PAGE = Path(__file__).parents[2] / "docs" / "invariants.md"


def test_the_page_is_up_to_date() -> None:
    again = "python -m properties.page > docs/invariants.md"
    assert PAGE.read_text(encoding="utf-8") == page.render_page(), f"make it again: {again}"


def test_every_property_has_one_row() -> None:
    rows = [
        line.split("`")[1] for line in page.render_page().splitlines() if line.startswith("| `")
    ]
    assert sorted(rows) == sorted(each.name for each in ALL)
