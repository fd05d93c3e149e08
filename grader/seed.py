"""The seed of a run: the number that its cases are drawn from, and who knows it.

Everybody knows the public one, so its answers could be learnt by heart. A graded run draws a secret
one, once for everybody in it.
"""

import secrets
from dataclasses import dataclass
from enum import StrEnum

from properties.cases.case_set import PUBLIC_SEED

MAX_SEED = 2**63 - 1
"""the largest number that every format of ours carries"""


class SeedKind(StrEnum):
    """Who knows a seed."""

    PUBLIC = "public"
    GIVEN = "given"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Seed:
    """A number, and who knows it."""

    value: int = PUBLIC_SEED
    kind: SeedKind = SeedKind.PUBLIC


def make_seed(value: int) -> Seed:
    """The seed of somebody who names one, which may be the public one."""
    return Seed(value, SeedKind.PUBLIC if value == PUBLIC_SEED else SeedKind.GIVEN)


def draw_secret_seed() -> Seed:
    """A seed that nobody knows."""
    return Seed(1 + secrets.randbelow(MAX_SEED), SeedKind.SECRET)


def choose_grading_seed(value: int | None) -> Seed:
    """The seed of a graded run: a secret one if nobody names any."""
    return draw_secret_seed() if value is None else make_seed(value)
