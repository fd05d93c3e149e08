"""Find methods that were meant to have another name: `forword`, `__int__`, `_init_`.

Python calls `__init__`, and torch calls `forward`. They do not call a method with nearly that name,
and all later errors follow from that.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from headcheck.grader.reading.symbol_table import DefinitionSite, SymbolTable, list_methods

MIN_SIMILARITY = {"__init__": 0.75, "forward": 0.8}
"""methods that other code calls, each with the similarity at which a name was meant for it"""


@dataclass(frozen=True, slots=True)
class NearName:
    """A method whose name is nearly that of one that the class lacks."""

    wanted: str
    written: str
    cell: int | None
    line: int


def find_near_name(symbols: SymbolTable, site: DefinitionSite, wanted: str) -> NearName | None:
    """Return the method that was meant as `wanted`; None if `wanted` exists, or none is near."""
    if symbols.find_method(site, wanted) is not None:
        return None
    near = [(_compute_similarity(f.name, wanted), f) for f in list_methods(site.node)]
    near = [(ratio, f) for ratio, f in near if ratio >= MIN_SIMILARITY[wanted]]
    if not near:
        return None
    best = max(near, key=lambda pair: pair[0])[1]
    return NearName(wanted, best.name, site.cell, best.lineno)


def list_near_names(symbols: SymbolTable, site: DefinitionSite) -> Iterator[NearName]:
    """Yield a near name for each method that other code calls and the class lacks."""
    found = (find_near_name(symbols, site, wanted) for wanted in MIN_SIMILARITY)
    yield from filter(None, found)


def _compute_similarity(name: str, wanted: str) -> float:
    """Return 1 for names that are equal but for case and underscores, less for others."""
    if wanted.startswith("_") and not name.startswith("_") and name != "init":
        return 0.0  # `unit` and `edit` are names of their own
    plain, asked = name.strip("_").lower(), wanted.strip("_")
    return difflib.SequenceMatcher(None, plain, asked).ratio()
