"""The pages that are made from the code say what the code says."""

import dataclasses
from pathlib import Path
from types import ModuleType

import pytest

from headcheck.exercises import catalogue
from headcheck.grader.course import formats
from headcheck.properties.families import ALL
from headcheck.properties.listing import page, summaries
from headcheck.properties.listing.summary import (
    SUMMARIES_FILE,
    PropertySummary,
    load_summaries,
)

DOCS = Path(__file__).parents[2] / "docs"
MADE = {"properties": page, "exercises": catalogue, "exports": formats}


@pytest.mark.parametrize("name", MADE)
def test_the_page_is_up_to_date(name: str) -> None:
    made: ModuleType = MADE[name]
    again = f"python -m {made.__name__} > docs/{name}.md"
    written = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert written == made.render_page() and again in written, f"make it again: {again}"


def test_the_summaries_are_up_to_date() -> None:
    again = "python -m headcheck.properties.listing.summaries > properties/listing/summaries.toml"
    written = SUMMARIES_FILE.read_text(encoding="utf-8")
    assert written == summaries.render_file() and again in written, f"make it again: {again}"


def test_summaries_are_read_as_they_are() -> None:
    fields = [field.name for field in dataclasses.fields(PropertySummary)]
    for summary, prop in zip(load_summaries(), ALL, strict=True):
        assert all(getattr(summary, name) == getattr(prop, name) for name in fields)


def test_every_property_has_one_row() -> None:
    rows = [
        line.split("`")[1] for line in page.render_page().splitlines() if line.startswith("| `")
    ]
    assert sorted(rows) == sorted(each.name for each in ALL)
