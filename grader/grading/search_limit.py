"""How long to search for failures on generated cases: a number of cases, or seconds.

Imports nothing heavy.
"""

import math
import re
from dataclasses import dataclass

MAX_CASES = 1_000_000
MAX_SECONDS = 24 * 3600


class BadSearch(Exception):
    """Text that does not say how long to search; the message says what would."""


@dataclass(frozen=True, slots=True)
class SearchLimit:
    """How long to search in one definition: one of the two is set."""

    cases: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.seconds is not None else str(self.cases)


def parse_search(text: str) -> SearchLimit:
    """Parse `200`, a number of cases, or `30s`, seconds. Raises BadSearch."""
    found = re.fullmatch(r"(\d+)|(\d+(?:\.\d+)?)\s*s", text.strip(), re.ASCII)
    if found is None:
        raise BadSearch(
            f"--search: {text[:40]!r} is neither a number of cases, such as 200, nor of seconds, "
            "such as 30s"
        )
    if found[1] is not None and 1 <= int(found[1][:9]) <= MAX_CASES and len(found[1]) <= 9:
        return SearchLimit(cases=int(found[1]))
    if (
        found[2] is not None
        and 0 < float(found[2][:20]) <= MAX_SECONDS
        and math.isfinite(float(found[2]))
    ):
        return SearchLimit(seconds=float(found[2]))
    raise BadSearch(
        f"--search: {text[:40]} is out of range: 1 to {MAX_CASES} cases, or more than 0 and up to "
        f"{MAX_SECONDS} seconds"
    )
