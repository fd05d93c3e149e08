"""Summaries of all properties without check functions, which load quickly and without torch.

`summaries.toml` is made by `python -m headcheck.properties.listing.summaries`, and a test compares
the two. It is for code that only names or counts properties: `headcheck show`, feedback levels,
waiving.
"""

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.terms.group import PropertyGroup

SUMMARIES_FILE = Path(__file__).with_name("summaries.toml")


@dataclass(frozen=True, slots=True)
class PropertySummary:
    """The fields of a `Property` that are not code, under the same names."""

    name: str
    claim: str
    group: PropertyGroup
    needs: frozenset[Capability]
    essential: bool


@functools.cache
def load_summaries() -> tuple[PropertySummary, ...]:
    """Return the summaries of all properties, in the order in which they are checked."""
    table = tomllib.loads(SUMMARIES_FILE.read_text(encoding="utf-8"))
    return tuple(
        PropertySummary(
            name=name,
            claim=entry["claim"],
            group=PropertyGroup(entry["group"]),
            needs=frozenset(Capability[need.upper()] for need in entry.get("needs", ())),
            essential=entry.get("essential", False),
        )
        for name, entry in table.items()
    )


def select_summaries(contract: Contract) -> tuple[PropertySummary, ...]:
    """Return the summaries of the properties that make sense for a contract."""
    return tuple(each for each in load_summaries() if each.needs <= contract.capabilities)
