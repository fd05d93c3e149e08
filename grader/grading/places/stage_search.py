"""Search a trace for stages, for the first that is missing, and for the step that should give it.

A stage is missing if its values are nowhere in the trace, and neither are those of a stage that
rests on it: code may go without a stage, as a fused kernel does.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headcheck.grader.grading.places.flow import (
    GIVEN,
    KERNELS,
    LAYOUTS,
    PARAMETER,
    PRODUCTS,
    WRITTEN,
    Flow,
)
from headcheck.grader.grading.places.matching import StageMatch, find_stage
from headcheck.grader.grading.places.stages import Kind, OracleStage, Stages, collect_needed

HEADS = "{head}"
MULTIPLIED = (Kind.LAYER, Kind.PRODUCT)


@dataclass(frozen=True, eq=False)
class Search:
    """A trace, and the stages that are looked for in it."""

    flow: Flow
    stages: Stages
    wrong: int
    """the returned step whose values are wrong"""
    target: str
    """the stage that this step should give"""
    exact: float
    weights: Mapping[str, str]
    """the paths of the weights of stages; each head may have its own"""
    paths: frozenset[str]
    """the paths of all weights that the statement asks for"""
    lacking: frozenset[str]
    """those that the module has not"""

    @cached_property
    def found(self) -> dict[str, StageMatch]:
        """The stages that are found, with the steps that give them."""
        matches = {k: find_stage(s, self.flow.by_size, self.exact) for k, s in self.stages.items()}
        found = {key: match for key, match in matches.items() if match is not None}
        scaled = {k for k in found if self.stages[k].scaled_later and found[k].is_scaled}
        found = {key: match for key, match in found.items() if key not in scaled}
        for key in (k for k in found if self.stages[k].by):
            first = found[key].steps
            later = {n for n in first if self.flow.walk_back([n]) & first - {n}}
            found[key] = StageMatch(first - later, {})
        return found

    @cached_property
    def right(self) -> frozenset[int]:
        """All steps that give a stage."""
        return frozenset().union(*(m.steps for m in self.found.values() if m.upright))

    @cached_property
    def slice(self) -> set[int]:
        """The steps on which a wrong result rests."""
        return self.flow.walk_back([self.wrong])

    def is_met(self, key: str) -> bool:
        match = self.found.get(key)
        return match is not None and match.upright

    def find_missing(self) -> str | None:
        """Return the first stage that is missing, although all that it needs could be there."""
        for key, stage in self.stages.items():
            if stage.optional or self.is_met(key) or self.has_met_successor(key):
                continue
            if stage.into and self._find_taken(stage) is None:
                continue
            if key == self.target or key in collect_needed(self.stages, self.target):
                return self._find_first_cause(key) if stage.into else key
        return None

    def _find_first_cause(self, key: str) -> str:
        """Return which stage that code may go without is missing, if another is for that reason."""
        for need in self.stages[key].needs:
            steps = self.found[need].steps if need in self.found else frozenset[int]()
            by = self.stages[need].by
            if not (steps if by else steps & self.slice):
                return key if by and self.choose_candidate(need) is None else need
        return key

    def has_met_successor(self, key: str) -> bool:
        return any(
            self.is_met(other) and key in collect_needed(self.stages, other)
            for other in self.stages
        )

    def iter_following(self, key: str) -> Iterator[str]:
        """Yield a stage and those that rest on it, in order."""
        yield key
        for other in self.stages:
            if key in collect_needed(self.stages, other) and not self.stages[other].optional:
                yield other

    def choose_candidate(self, key: str) -> int | None:
        """Return the step that should have given a stage."""
        stage = self.stages[key]
        if stage.into:
            return self._find_taken(stage)
        if (layer := self._find_layer(key)) is not None:
            return layer if layer not in self.right else None
        if stage.kind is Kind.LAYER and not self.uses_path(self.weights.get(key)):
            return None
        given = self._list_given(key)
        if stage.hidden is not None and (idle := self.find_idle(key)) is not None:
            return idle
        reached = [self.flow.walk_on(steps) for steps in given]
        from_all = set.intersection(*reached) if reached else set[int]()
        # What is not rotated rests on no angles; what rests on angles alone is not rotated.
        turned = any(self.stages[k].into for k in stage.needs)
        any_of = reached[0] if turned and reached else set[int]().union(*reached)
        for possible in (from_all, any_of) if stage.needs else (self.slice,):
            candidates = self._list_candidates(stage, possible)
            if stage.kind in MULTIPLIED and possible is any_of:
                candidates = [n for n in candidates if self.flow.steps[n].kind in PRODUCTS]
            chosen = self._pick(key, candidates, given) if candidates else None
            if chosen is not None:
                return chosen
        return None

    def _find_taken(self, stage: OracleStage) -> int | None:
        """Return the first step that is taken as a stage is, and that is not right."""
        taken = (self.flow.steps[n] for n in sorted(self.slice))
        sources = (each.sources[-1] for each in taken if each.kind in stage.into)
        return next((n for n in sources if n not in self.right), None)

    def find_idle(self, key: str) -> int | None:
        """Return a step that may hide scores, but leaves all as they are."""
        before = self.found.get(self.stages[key].needs[0])
        same = self.slice & before.steps if before else set[int]()
        sources = {n: self.flow.steps[n].sources for n in same}
        idle = (n for n in same if len(sources[n]) > 1 and not same.isdisjoint(sources[n]))
        return max(idle, default=None)

    def _divides_more(self, number: int) -> bool:
        """Whether positions are divided by a step: then it may be the inverse of frequencies."""
        uses = (self.flow.steps[n] for n in self.flow.uses[number])
        size = math.prod(self.flow.steps[number].shape)
        return any("div" in each.kind and math.prod(each.shape) > size for each in uses)

    def _list_given(self, key: str) -> list[frozenset[int]]:
        """Return the steps of what a stage needs, or of what that needs where it is missing."""
        given: list[frozenset[int]] = []
        for need in self.stages[key].needs:
            if self.is_met(need):
                given.append(self.found[need].steps)
            elif need in self.stages:
                given += self._list_given(need)
        return given

    def _find_layer(self, key: str) -> int | None:
        """Return the step in which a stage's own weight is used, if that is known."""
        path = self.weights.get(key)
        if path is None or HEADS in path or self.stages[key].kind is not Kind.LAYER:
            return None
        steps = self.flow.steps
        uses = {n for n, step in enumerate(steps) if step.kind == PARAMETER + path}
        for number in sorted(self.slice):
            taken = {self._skip_layouts(n) for n in steps[number].sources}
            if steps[number].kind in PRODUCTS and taken & uses:
                return number
        return None

    def uses_path(self, path: str | None) -> bool:
        """Whether a wrong result rests on a parameter, of the first head if each has its own."""
        kind = PARAMETER + (path or "").format(head=0)
        return path is None or any(self.flow.steps[n].kind == kind for n in self.slice)

    def _skip_layouts(self, number: int) -> int:
        step = self.flow.steps[number]
        while step.kind in LAYOUTS and len(step.sources) == 1:
            [number] = step.sources
            step = self.flow.steps[number]
        return number

    def _uses_weight(self, number: int) -> bool:
        steps = self.flow.steps
        taken = (self._skip_layouts(n) for n in steps[number].sources)
        return steps[number].kind == "linear" or any(
            steps[n].kind.startswith("parameter ") for n in taken
        )

    def _list_candidates(self, stage: OracleStage, possible: set[int]) -> list[int]:
        """Return the steps of a stage's size, or else of the size of one of its pieces."""
        steps = self.flow.steps
        left = [
            n
            for n in sorted(possible & self.slice - self.right)
            if not steps[n].kind.startswith(GIVEN)
        ]
        for size in stage.piece_sizes:
            if found := [n for n in left if math.prod(steps[n].shape) == size]:
                return found
        return []

    def _pick(self, key: str, candidates: list[int], given: Sequence[frozenset[int]]) -> int | None:
        stage, steps = self.stages[key], self.flow.steps
        if stage.by:
            powers = (n for n in candidates if steps[n].kind in stage.by)
            return next((n for n in powers if not self._divides_more(n)), None)
        if stage.kind in MULTIPLIED:
            return self._pick_product(stage, candidates)
        softmaxes = [n for n in candidates if "softmax" in steps[n].kind]
        if stage.kind is Kind.SOFTMAX and softmaxes:
            products = {n for n in self.slice if steps[n].kind in PRODUCTS}
            later = self.flow.walk_on(softmaxes[:1], through=self.slice - products)
            # A sink may take its share of the weights afterwards.
            return max(later & set(candidates)) if key in self.weights else softmaxes[0]
        ends = {n for n in self.slice if steps[n].kind in PRODUCTS or "softmax" in steps[n].kind}
        if stage.kind is Kind.STEP and stage.is_of_keys:  # a softmax may be written by hand
            ends |= {n for n in self.slice if steps[n].kind == "exp"}
        segment = self.flow.walk_on(set().union(*given), through=self.slice - ends)
        near = [n for n in candidates if n in segment]
        if stage.kind is Kind.SUM:
            each = [self.flow.walk_on(steps, through=self.slice - ends) for steps in given]
            return next((n for n in candidates if all(n in reached for reached in each)), None)
        if stage.hidden is not None:  # a mask comes from elsewhere
            near = [n for n in near if len(steps[n].sources) > 1] or near
        for other, after in self.stages.items():
            if key in after.needs and (layer := self._find_layer(other)) is not None:
                near = [n for n in near if n in self.flow.walk_back([layer]) and n != layer]
        return near[-1] if near else None

    def _pick_product(self, stage: OracleStage, candidates: list[int]) -> int | None:
        steps = self.flow.steps
        if stage.kind is Kind.PRODUCT:
            candidates = [n for n in candidates if not self._uses_weight(n)]
        if stage.is_of_keys:
            candidates = [n for n in candidates if steps[n].kind not in KERNELS]
        multiplied = [n for n in candidates if steps[n].kind in PRODUCTS]
        written = [n for n in candidates if steps[n].kind in WRITTEN]
        return next(iter(multiplied or written[-1:] or candidates), None)


@dataclass(frozen=True, eq=False)
class SearchReader:
    """Something that is read from a trace after it was searched."""

    search: Search

    @property
    def flow(self) -> Flow:
        return self.search.flow

    @property
    def stages(self) -> Stages:
        return self.search.stages
