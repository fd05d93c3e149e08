"""How long to search for failures on generated cases: a number of cases, or seconds.

Imports nothing heavy.
"""

import re
from dataclasses import dataclass

from headcheck.grader import UserError

MAX_CASES = 1_000_000
MAX_SECONDS = 24 * 3600


class BadSearch(UserError):
    """The text is not a valid search limit; the message says which texts are valid."""


@dataclass(frozen=True, slots=True)
class SearchLimit:
    """The limit of a search in one definition: either a number of cases or of seconds."""

    cases: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.seconds is not None else str(self.cases)


def parse_search(text: str) -> SearchLimit:
    """Parse a number of cases, like `200`, or of seconds, like `30s`. Raises BadSearch."""
    found = re.fullmatch(r"(\d+)|(\d+(?:\.\d+)?)\s*s", text.strip(), re.ASCII)
    if found is None:
        raise BadSearch(
            f"--search: {text[:40]!r} is neither a number of cases, such as 200, nor of seconds, "
            "such as 30s"
        )
    number = float(found[1] or found[2])
    if found[1] is not None and 1 <= number <= MAX_CASES:
        return SearchLimit(cases=int(number))
    if found[2] is not None and 0 < number <= MAX_SECONDS:
        return SearchLimit(seconds=number)
    raise BadSearch(
        f"--search: {text[:40]} is out of range: 1 to {MAX_CASES} cases, or more than 0 and up to "
        f"{MAX_SECONDS} seconds"
    )
