"""The pages that are made from the code say what the code says."""

from pathlib import Path
from types import ModuleType

import pytest

import exercises.catalogue
from grader.cohort import formats
from properties import catalogue
from properties.invariants import ALL

DOCS = Path(__file__).parents[2] / "docs"
MADE = {"invariants": catalogue, "exercises": exercises.catalogue, "exports": formats}


@pytest.mark.parametrize("name", MADE)
def test_the_page_is_up_to_date(name: str) -> None:
    made: ModuleType = MADE[name]
    again = f"python -m {made.__name__} > docs/{name}.md"
    written = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert written == made.page() and again in written, f"make it again: {again}"


def test_every_invariant_has_one_row() -> None:
    rows = [line.split("`")[1] for line in catalogue.page().splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(each.name for each in ALL)
