"""docs/contract-files.md names every key and every capability, and its example is an exercise."""

import re
from pathlib import Path

from headcheck.exercises.contract_checks import QUANTITIES, SIZES
from headcheck.exercises.contract_file import list_fields, read_exercise
from headcheck.exercises.exercise import Exercise
from headcheck.properties.contracts.contract import Capability, Contract, Entry, Returns
from headcheck.properties.contracts.implied_capabilities import IMPLIED
from headcheck.properties.parts import WEIGHTS

PAGE = (Path(__file__).parents[2] / "docs" / "contract-files.md").read_text(encoding="utf-8")


def read_section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


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
