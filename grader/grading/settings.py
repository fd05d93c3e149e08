"""The settings of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headcheck.exercises import Exercise
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.report.points import SLIP, Points
from headcheck.grader.report.rounding import HUNDREDTH
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.seed import Seed
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.terms.depth import Depth

if TYPE_CHECKING:
    from headcheck.grader.grading.stated_roles import StatedRoles


@dataclass(frozen=True)
class Settings:
    """The settings of a run, the same for every submission."""

    exercise: Exercise | None = None
    limits: Limits = field(default_factory=Limits)
    limit_overrides: Mapping[str, float] = field(default_factory=dict)
    """limits that override the exercise's limits"""
    points: Points | None = None
    rounding: float = HUNDREDTH
    """the step to which scores are rounded, in points"""
    slip: float = SLIP
    """what the change that undoes a slip costs, in percent of the points"""
    seed: Seed = field(default_factory=Seed)
    device: str = "cpu"
    by_hand: bool = False
    """whether torch's own attention is withheld in every exercise that does not ask for it"""
    jobs: int | None = None
    """how many files are graded at the same time; by default as many as are worthwhile"""
    roles: "StatedRoles | None" = None
    """the user's statements about classes that are recognised by their behaviour"""
    search: SearchLimit | None = None
    """how long to search for failures on generated cases, after the fixed ones"""
    depth: Depth = Depth.USUAL
    """how much is asked of an answer, unless the exercise is one of `thorough`"""
    thorough: frozenset[str] = frozenset()
    """the slugs of the exercises in which everything is asked"""
    all_examples: bool = False
    """whether failures that follow from a known mistake are also shrunk to smallest examples"""

    def get_limits(self, exercise: Exercise | None) -> Limits:
        """Return the limits for a submission that answers this exercise."""
        own = {} if exercise is None else exercise.limits
        return self.limits.with_overrides({**own, **self.limit_overrides})

    def get_depth(self, exercise: Exercise) -> Depth:
        """Return how much is asked of an answer to an exercise."""
        return Depth.THOROUGH if exercise.slug in self.thorough else self.depth

    def is_by_hand(self, exercise: Exercise) -> bool:
        """Return whether torch's own attention is withheld in an exercise."""
        return (self.by_hand or exercise.by_hand) and not exercise.contract.has(Capability.FUSED)
