"""Claims about a definition that is no attention itself, and what was found of them."""

from dataclasses import dataclass

from headcheck.grader.grading.tracing.positions import Position
from headcheck.properties.terms.group import PropertyGroup


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed of a definition, by the name that reports use."""

    name: str
    claim: str
    group: PropertyGroup


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """What a claim expects and what was seen, in words; both are empty if the claim holds."""

    claim: Claim
    expected: str = ""
    got: str = ""
    case: str = ""
    lines: tuple[Position, ...] = ()
    """the lines that break the claim, if they are known"""

    @property
    def holds(self) -> bool:
        """Whether nothing else was seen than what is expected."""
        return not self.expected
