"""Pages of docs/ say what the code says: pages made from it, and pages with its figures."""

import dataclasses
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from headcheck.exercises import BY_SLUG, catalogue
from headcheck.exercises.answers import find_answer
from headcheck.exercises.contract_checks import QUANTITIES, SIZES
from headcheck.exercises.contract_file import list_fields, read_exercise
from headcheck.exercises.exercise import Exercise
from headcheck.grader.course import formats
from headcheck.grader.ui.pytest_plugin import search
from headcheck.properties.cases import strategies
from headcheck.properties.contracts.contract import Capability, Contract, Entry, Returns
from headcheck.properties.contracts.implied_capabilities import IMPLIED
from headcheck.properties.families import ALL
from headcheck.properties.listing import page, summaries
from headcheck.properties.listing.summary import SUMMARIES_FILE, PropertySummary, load_summaries
from headcheck.properties.parts import WEIGHTS
from tests.docs.test_readme import ROOT, dialogues, folder, run

__all__ = ["folder"]

DOCS = ROOT / "docs"
MADE = {"properties": page, "exercises": catalogue, "exports": formats}
CHOSEN = (ROOT / "benchmarks" / "gallery.toml").read_text(encoding="utf-8")


def read_page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------------ made from the code


@pytest.mark.parametrize("name", MADE)
def test_the_page_is_up_to_date(name: str) -> None:
    made: ModuleType = MADE[name]
    again, written = f"python -m {made.__name__} > docs/{name}.md", read_page(name)
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


# ------------------------------------------------------------------------ contract-files.md


def read_section(title: str) -> str:
    return read_page("contract-files").split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(table: str) -> set[str]:
    """The names in backticks in the first column, without the brackets of tables."""
    rows = [row.split("|")[1] for row in table.split("\n") if row.startswith("| `")]
    return {
        name.strip("[]").split(".")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)
    }


def test_the_example_is_an_exercise() -> None:
    text = read_section("An example").split("```toml\n")[1].split("```")[0]
    contract = read_exercise(Path("/course/joined"), text).contract
    assert contract.has(Capability.HEADS, Capability.BIAS_OPTION, Capability.OUTPUT_PROJECTION)


def test_every_key_is_explained() -> None:
    section = read_section("Keys")
    assert first_cells(section) == {*list_fields(Exercise), *list_fields(Contract)}
    values = [*(each.name.lower() for each in (*Entry, *Returns))]
    assert [each for each in values if f'`"{each}"`' not in section] == []
    assert [each for each in (*QUANTITIES, *SIZES, *WEIGHTS) if f"`{each}`" not in section] == []


def test_every_capability_is_listed_or_follows() -> None:
    listed, implied = read_section("Capabilities").split("The following capabilities are implied")
    assert first_cells(implied) == {each.name.lower() for each in IMPLIED}
    always = {each.name.lower() for each in Capability} - first_cells(implied)
    assert first_cells(listed) == {*always, "bias"}


# ----------------------------------------------------------------------------- strategies.md


def test_the_blocks_run_and_their_tests_pass() -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    settings.register_profile("page", max_examples=20, derandomize=True, database=None)
    before = settings.get_current_profile_name()
    settings.load_profile("page")
    try:
        for block in re.findall(r"^```python\n(.*?)^```", read_page("strategies"), re.M | re.S):
            exec(compile(block, "docs/strategies.md", "exec"), namespace)
        tests = [value for name, value in namespace.items() if name.startswith("test_")]
        assert len(tests) == 2
        for test in tests:
            test()
    finally:
        settings.load_profile(before)


def test_figures_are_those_of_the_code() -> None:
    said = " ".join(read_page("strategies").split())
    usual = ", ".join(str(size) for size in strategies.USUAL_SIZES.values())
    assert f"`max_batch`, `max_d_in` | {usual} |" in said
    most = search.LARGEST_SIZES
    tokens, heads, batch = most["max_tokens"], most["max_heads"], most["max_batch"]
    assert most["max_head_dim"] == most["max_d_in"] == 128
    assert f"up to {tokens} tokens, {heads} heads, 128 dimensions" in said
    assert f"a batch of {batch}" in said
    assert f"A property that has {search.FULL_LIMIT} cases in the bank gets all" in said
    assert (search.COSTLY_LIMIT, search.SHRINK_SECONDS) == (4, 20)


# ---------------------------------------------------------------- gallery.md, recognition.md


def test_every_exercise_has_a_picture_or_is_said_to_have_none() -> None:
    without = re.findall(r"\b\w+\b", CHOSEN.partition("\n\n")[0])
    assert {*tomllib.loads(CHOSEN)} == {slug for slug in BY_SLUG if slug not in without}


def test_every_picture_is_of_an_answer_of_the_bank() -> None:
    shown = read_page("gallery")
    for slug, name in tomllib.loads(CHOSEN).items():
        found = find_answer(BY_SLUG[slug], name)
        assert f"`{slug}/{found.name}`: " in shown
        drawing = (DOCS / "images" / "gallery" / f"{slug}.svg").read_text(encoding="utf-8")
        assert drawing.count("<svg ") >= 3, "what is right, and what was got"
        assert "&lt;" not in drawing


def test_the_example_of_recognition_prints_what_is_shown(folder: Path) -> None:
    [(command, lines)] = dialogues(read_page("recognition"))
    printed = run(command, folder).stdout.splitlines()
    assert [line for line in lines if line not in printed] == []
