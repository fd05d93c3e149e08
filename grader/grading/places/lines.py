"""The bound of a mistake: the lines that contain it, and how they are chosen for its steps."""

import math
from collections.abc import Iterable, Set
from dataclasses import dataclass

from headcheck.grader.grading.places.flow import (
    PARAMETER,
    Position,
    list_between,
    sort_positions,
)
from headcheck.grader.grading.places.stage_search import SearchReader
from headcheck.grader.grading.places.stages import Kind, collect_needed

JOINS = ("stack", "cat", "concat")
"""functions that lay pieces side by side, which decide what a later layout must be"""


@dataclass(frozen=True)
class Bound:
    """Where the mistake is."""

    stage: str
    """the key of the first stage that is missing"""
    step: int | None
    """the step that should have given it; None if there is none"""
    lines: tuple[Position, ...]
    """the lines that contain the mistake"""
    before: tuple[Position, ...]
    """the lines that give what it should be computed from, all of which is right"""
    found: tuple[str, ...]
    """the keys of what these lines give"""
    factor: float | None = None
    """if scores are only too large or too small: by how much"""
    scrambles: str = ""
    """if numbers are only laid out wrongly: the key of the stage that they are"""
    is_left_out: bool = False
    """whether no step of the code could be the missing stage"""
    is_unused: bool = False
    """whether the stage is there, and nothing that is returned rests on it"""
    weights: str = ""
    """what is wrong with weights, in a sentence, if that is the mistake"""


@dataclass(frozen=True, eq=False)
class LineFinder(SearchReader):
    """Finds lines in a trace that was searched."""

    def list_lines(self, numbers: Iterable[int]) -> tuple[Position, ...]:
        """Return the lines of steps; if a helper is right elsewhere, also where it is called."""
        right = {(self.flow.get_position(n), self.get_kind(n)) for n in self.search.right}
        found: list[Position] = []
        for number in sorted(numbers):
            around = self.flow.list_around(number)
            is_right = (self.flow.get_position(number), self.get_kind(number)) in right
            found += around if is_right else around[:1]
        return sort_positions(found)

    def get_kind(self, number: int) -> str:
        return self.flow.steps[number].kind

    def get_sources(self, number: int) -> tuple[int, ...]:
        return self.flow.steps[number].sources

    def add_fed(self, numbers: Iterable[int]) -> tuple[Position, ...]:
        """Return the lines of steps, and those that set the numbers that these lines read."""
        lines = self.list_lines(numbers)
        fed = [
            (at[0], line)
            for at in lines
            if at in self.flow.lines
            for line in self.flow.lines[at].fed_by
        ]
        return sort_positions({*lines, *fed})

    def add_pieces(self, lines: tuple[Position, ...], edge: set[int]) -> tuple[Position, ...]:
        """Add the lines that set what pieces of a stage, made in a loop, depend on."""
        matches = [match for match in self.search.found.values() if not match.whole]
        pieces = {n for n in edge if any(n in match.steps for match in matches)}
        fed = set(self.add_fed(pieces)) - set(self.flow.list_positions(pieces))
        return sort_positions({*lines, *fed}) if pieces else lines

    def add_gains(
        self, missing: str, step: int, lines: tuple[Position, ...]
    ) -> tuple[Position, ...]:
        """Add the lines that use the gain of a missing norm elsewhere.

        If no line does, it is left out before the function of the norm returns.
        """
        path = self.search.weights.get(missing)
        own = {n for n, each in enumerate(self.flow.steps) if each.kind == f"{PARAMETER}{path}"}
        users = {n for each in own for n in self.flow.uses[each] if n in self.search.slice}
        is_layer = self.stages[missing].kind is Kind.LAYER
        if path is None or is_layer or users & self.flow.walk_back([step]):
            return lines
        if users:
            return sort_positions([*lines, *self.flow.list_positions(users)])
        return sort_positions([*lines, *self.flow.list_returns(self.flow.list_positions([step]))])

    def list_thrown_away(self, used: Set[int], numel: int) -> tuple[Position, ...]:
        """Return the lines of a result that could be a missing stage, but on which nothing rests.

        If it was computed in a function, the line on which this returns is one of them.
        """
        dead = self.flow.walk_on(used) - self.search.slice
        ends = [n for n in dead if not self.flow.uses[n]]
        ends = [n for n in ends if math.prod(self.flow.steps[n].shape) == numel][-1:]
        called = [n for n in ends if self.flow.steps[n].outer is not None]
        returns = self.flow.list_returns(self.flow.list_positions(called))
        return sort_positions([*self.flow.list_positions(ends), *returns])

    def add_span(
        self, missing: str, step: int, edge: set[int], lines: tuple[Position, ...]
    ) -> tuple[Position, ...]:
        """Add all lines between what is right and a step before which something is left out."""
        lines = self.span(self.list_begins(missing) or edge, step, lines)
        joined = {
            n for each in edge if self.get_kind(each) in JOINS for n in self.get_sources(each)
        }
        called = [n for n in edge | joined if self.flow.steps[n].outer is not None]
        ends = self.flow.list_returns(self.flow.list_all_around(called))
        return sort_positions([*lines, *ends])

    def add_turning(
        self, missing: str, edge: set[int], lines: tuple[Position, ...]
    ) -> tuple[Position, ...]:
        """Add the lines of the angles if what they rotate is missing."""
        turns = (k for k in self.stages[missing].needs if self.stages[k].into)
        found = (self.search.found[k].steps for k in turns if k in self.search.found)
        every = next(found, frozenset[int]())
        turning = edge & every
        laid_out = {n for n in self.flow.walk_back(turning) & every if self._is_doubled(n)}
        return sort_positions([*lines, *self.flow.list_positions(turning | laid_out)])

    def _is_doubled(self, number: int) -> bool:
        """Whether a step repeats numbers, for both coordinates of each pair."""
        step = self.flow.steps[number]
        before = (math.prod(self.flow.steps[n].shape) for n in step.sources)
        return step.kind in (*JOINS, "repeat_interleave", "repeat") and any(
            2 * size == math.prod(step.shape) for size in before
        )

    def list_begins(self, missing: str) -> set[int]:
        """Return the first step that gives what a missing stage is made of."""
        needs = self.stages[missing].needs
        own = [n for n in needs if not any(n in collect_needed(self.stages, o) for o in needs)]
        met = (k for k in own[:1] if self.search.is_met(k))
        used = (self.search.found[k].steps & self.search.slice for k in met)
        return {min(steps) for steps in used if steps}

    def span(self, edge: set[int], step: int, lines: tuple[Position, ...]) -> tuple[Position, ...]:
        """Return the lines from what is right to the step before which something is left out."""
        before = [at for n in edge for at in self.flow.list_around(n)]
        after = self.flow.list_around(step)
        own = *lines, *self.flow.list_positions(edge)
        return sort_positions([*own, *list_between(before, after)])
