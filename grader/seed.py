"""The seed of a run: the number that its cases are drawn from, and who knows it.

Everybody knows the public one, so its answers could be learnt by heart. A graded run draws a secret
one, once for everybody in it.
"""

import secrets
from dataclasses import dataclass
from enum import StrEnum

from properties.cases.case_set import PUBLIC

HIGHEST = 2**63 - 1
"""the largest number that every format of ours carries"""


class Kind(StrEnum):
    """Who knows a seed."""

    PUBLIC = "public"
    GIVEN = "given"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Seed:
    """A number, and who knows it."""

    value: int = PUBLIC
    kind: Kind = Kind.PUBLIC


def given(value: int) -> Seed:
    """The seed of somebody who names one, which may be the public one."""
    return Seed(value, Kind.PUBLIC if value == PUBLIC else Kind.GIVEN)


def secret() -> Seed:
    """A seed that nobody knows."""
    return Seed(1 + secrets.randbelow(HIGHEST), Kind.SECRET)


def for_grading(value: int | None) -> Seed:
    """The seed of a graded run: a secret one if nobody names any."""
    return secret() if value is None else given(value)
