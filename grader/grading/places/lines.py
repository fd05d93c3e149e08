"""The bound of a mistake: the lines that contain it, and how they are chosen for its steps."""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from headcheck.grader.grading.places.stage_search import Search
from headcheck.grader.grading.places.stages import Kind
from headcheck.grader.grading.tracing.operations import Action
from headcheck.grader.grading.tracing.positions import Position, list_between


@dataclass(frozen=True)
class Bound:
    """Where the mistake is."""

    stage: str
    """the key of the first stage that is missing"""
    step: int | None
    """the step that should have given it; None if there is none"""
    lines: Set[Position]
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
class LineFinder(Search):
    """Finds lines in a trace that is searched."""

    def list_lines(self, numbers: Iterable[int]) -> set[Position]:
        """Return the lines of steps; if a helper is right elsewhere, also where it is called."""
        right = {(self.flow.get_position(n), self.flow.kinds[n]) for n in self.right}
        found: list[Position] = []
        for number in numbers:
            around = self.flow.list_around(number)
            is_right = (self.flow.get_position(number), self.flow.kinds[number]) in right
            found += around if is_right else around[:1]
        return set(found)

    def add_fed(self, numbers: Iterable[int]) -> set[Position]:
        """Return the lines of steps, and those that set the numbers that these lines read."""
        lines = self.list_lines(numbers)
        known = [self.flow.lines[at] for at in lines if at in self.flow.lines]
        return lines | {(each.cell, line) for each in known for line in each.fed_by}

    def list_feeding_pieces(self, edge: set[int]) -> set[Position]:
        """Return the lines that set what pieces of a stage, made in a loop, depend on."""
        matches = [match for match in self.found.values() if not match.whole]
        pieces = {n for n in edge if any(n in match.steps for match in matches)}
        return self.add_fed(pieces) - {*self.flow.list_positions(pieces)}

    def list_gains(self, missing: str, step: int) -> set[Position]:
        """Return the lines that use the gain of a missing norm elsewhere.

        If no line does, it is left out before the function of the norm returns.
        """
        path = self.weights.get(missing)
        own = {n for n, each in self.flow.parameters.items() if each == path}
        users = {n for each in own for n in self.flow.uses[each] if n in self.slice}
        is_layer = self.stages[missing].kind is Kind.LAYER
        if path is None or is_layer or users & self.flow.walk_back([step]):
            return set()
        at = self.flow.list_positions(users or [step])
        return {*at} if users else self.flow.list_returns(at)

    def list_thrown_away(self, used: Set[int], numel: int) -> set[Position]:
        """Return the lines of a result that could be a missing stage, but on which nothing rests.

        If it was computed in a function, the line on which this returns is one of them.
        """
        dead = self.flow.walk_on(used) - self.slice
        ends = [n for n in dead if not self.flow.uses[n] and self.flow.numels[n] == numel][-1:]
        called = self.flow.list_positions(n for n in ends if self.flow.steps[n].outer is not None)
        return {*self.flow.list_positions(ends)} | self.flow.list_returns(called)

    def list_all_between(self, missing: str, step: int, edge: set[int]) -> set[Position]:
        """Return all lines between what is right and a step before which something is left out."""
        joins = [n for n in edge if self.flow.does[n] is Action.JOIN]
        joined = {n for each in joins for n in self.flow.steps[each].sources}
        called = [n for n in edge | joined if self.flow.steps[n].outer is not None]
        ends = self.flow.list_returns(self.flow.list_all_around(called))
        return ends | self.span(self.list_begins(missing) or edge, step)

    def list_turning(self, missing: str, edge: set[int]) -> set[Position]:
        """Return the lines of the angles if what they rotate is missing."""
        turns = (k for k in self.stages[missing].needs if self.stages[k].into)
        every = {n for k in turns if k in self.found for n in self.found[k].steps}
        turning = edge & every
        laid_out = {n for n in self.flow.walk_back(turning) & every if self._is_doubled(n)}
        return {*self.flow.list_positions(turning | laid_out)}

    def _is_doubled(self, number: int) -> bool:
        """Whether a step repeats numbers, for both coordinates of each pair."""
        sizes = [2 * self.flow.numels[n] for n in self.flow.steps[number].sources]
        repeats = self.flow.does[number] in (Action.JOIN, Action.REPEAT)
        return repeats and self.flow.numels[number] in sizes

    def list_begins(self, missing: str) -> set[int]:
        """Return the first step that gives what a missing stage is made of."""
        needs = self.stages[missing].needs
        own = [n for n in needs if not any(n in self.needed[o] for o in needs)]
        met = (k for k in own[:1] if self.is_met(k))
        used = (self.found[k].steps & self.slice for k in met)
        return {min(steps) for steps in used if steps}

    def span(self, edge: set[int], step: int) -> set[Position]:
        """Return the lines from what is right to the step before which something is left out."""
        before = self.flow.list_all_around(edge)
        after = self.flow.list_around(step)
        return {*self.flow.list_positions(edge)} | list_between(before, after)
