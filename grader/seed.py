"""The seed of a run: the number from which its cases derive, and whether it is secret.

The public seed is known, so students could memorise the right outputs for its cases. A graded run
draws a secret seed, the same for all its submissions.
"""

import secrets
from dataclasses import dataclass
from enum import StrEnum

from headcheck.properties.cases.case_set import PUBLIC_SEED

MAX_SEED = 2**63 - 1
"""the largest number that all stored formats can carry"""


class SeedKind(StrEnum):
    """Who knows a seed."""

    PUBLIC = "public"
    GIVEN = "given"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Seed:
    """The number of a seed, and who knows it."""

    value: int = PUBLIC_SEED
    kind: SeedKind = SeedKind.PUBLIC


def make_seed(value: int) -> Seed:
    """Return a seed with the value that the user gave, which may be that of the public seed."""
    return Seed(value, SeedKind.PUBLIC if value == PUBLIC_SEED else SeedKind.GIVEN)


def draw_secret_seed() -> Seed:
    """Draw a seed that nobody knows."""
    return Seed(1 + secrets.randbelow(MAX_SEED), SeedKind.SECRET)


def choose_grading_seed(value: int | None) -> Seed:
    """Return the seed of a graded run: a secret one unless the user gives a value."""
    return draw_secret_seed() if value is None else make_seed(value)
