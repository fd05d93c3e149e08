"""Find methods that were meant to have another name: `forword`, `__int__`, `_init_`.

Python calls `__init__`, and torch calls `forward`. Neither calls a method whose name is slightly
different, and that causes all later errors.
"""

import difflib
from dataclasses import dataclass

from headcheck.grader.reading.symbol_table import DefinitionSite, SymbolTable, list_methods

MIN_SIMILARITY = {"__init__": 0.75, "forward": 0.8}
"""methods that other code calls, each with the similarity from which on a name counts as a
misspelling of the method's name"""


@dataclass(frozen=True, slots=True)
class NearName:
    """A method whose name is nearly the name of a method that the class lacks."""

    written: str
    cell: int | None
    line: int


def find_near_name(symbols: SymbolTable, site: DefinitionSite, wanted: str) -> NearName | None:
    """Return the method meant as `wanted`; None if that exists or no name is similar."""
    if symbols.find_method(site, wanted) is not None:
        return None
    near = [(_compute_similarity(f.name, wanted), f) for f in list_methods(site.node)]
    near = [(ratio, f) for ratio, f in near if ratio >= MIN_SIMILARITY[wanted]]
    if not near:
        return None
    best = max(near, key=lambda pair: pair[0])[1]
    return NearName(best.name, site.cell, best.lineno)


def _compute_similarity(name: str, wanted: str) -> float:
    """Return 1 for names that differ only in case and underscores, and less for other names."""
    if wanted.startswith("_") and not name.startswith("_") and name != "init":
        return 0.0  # `unit` and `edit` are names of their own
    plain, asked = name.strip("_").lower(), wanted.strip("_")
    return difflib.SequenceMatcher(None, plain, asked).ratio()
