"""Search a trace for stages, for the first that is missing, and for the step that should give it.

A stage is missing if its values are nowhere in the trace, and neither are those of a stage that
rests on it: code may go without a stage, as a fused kernel does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from headcheck.grader.grading.places.matching import StageMatch, find_stage
from headcheck.grader.grading.places.stages import Kind, OracleStage, Stages
from headcheck.grader.grading.tracing.graph import Flow
from headcheck.grader.grading.tracing.operations import PRODUCTS, Action

HEADS = "{head}"
MULTIPLIED = (Kind.LAYER, Kind.PRODUCT)
NAMED_SOFTMAXES = (Action.SOFTMAX, Action.OTHER_SOFTMAX)


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
        once = {key for key, stage in self.stages.items() if stage.scaled_later}
        for key in (k for k in found if self.stages[k].by):
            first = found[key].factors
            later = {n for n in first if self.flow.walk_back([n]) & first.keys() - {n}}
            found[key] = StageMatch({n: f for n, f in first.items() if n not in later})
        return {k: each for k, each in found.items() if k not in once or not each.is_scaled}

    @cached_property
    def needed(self) -> dict[str, frozenset[str]]:
        """From which stages each stage is computed, directly or not."""
        needed: dict[str, frozenset[str]] = {}
        for key, stage in self.stages.items():  # in order
            needed[key] = frozenset(stage.needs).union(*(needed[k] for k in stage.needs))
        return needed

    @cached_property
    def right(self) -> frozenset[int]:
        """All steps that give a stage."""
        return frozenset().union(*(m.steps for m in self.found.values() if m.upright))

    @cached_property
    def slice(self) -> set[int]:
        """The steps on which a wrong result rests."""
        return self.flow.walk_back([self.wrong])

    @cached_property
    def products(self) -> set[int]:
        """Those of them that multiply matrices."""
        return {n for n in self.slice if self.flow.does[n] in PRODUCTS}

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
            if key == self.target or key in self.needed[self.target]:
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
        return any(key in self.needed[other] for other in self.found if self.is_met(other))

    def iter_following(self, key: str) -> Iterator[str]:
        """Yield a stage and those that rest on it, in order."""
        after = (k for k, stage in self.stages.items() if not stage.optional)
        yield from (key, *(k for k in after if key in self.needed[k]))

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
                candidates = [n for n in candidates if n in self.products]
            if (chosen := self._pick(key, candidates, given)) is not None:
                return chosen
        return None

    def _find_taken(self, stage: OracleStage) -> int | None:
        """Return the first step that is taken as a stage is, and that is not right."""
        taken = (n for n in sorted(self.slice) if self.flow.does[n] in stage.into)
        sources = (self.flow.steps[n].sources[-1] for n in taken)
        return next((n for n in sources if n not in self.right), None)

    def find_idle(self, key: str) -> int | None:
        """Return a step that may hide scores, but leaves all as they are."""
        before = self.found.get(self.stages[key].needs[0])
        same = self.slice & before.steps if before else set[int]()
        sources = {n: self.flow.steps[n].sources for n in same}
        idle = (n for n in same if len(sources[n]) > 1 and not same.isdisjoint(sources[n]))
        return max(idle, default=None)

    def _list_given(self, key: str) -> list[frozenset[int]]:
        """Return the steps of what a stage needs, or of what that needs where it is missing."""
        given: list[frozenset[int]] = []
        for need in self.stages[key].needs:
            if self.is_met(need):
                given.append(self.found[need].steps)
            else:
                given += self._list_given(need)
        return given

    def _find_layer(self, key: str) -> int | None:
        """Return the step in which a stage's own weight is used, if that is known."""
        path = self.weights.get(key)
        if path is None or HEADS in path or self.stages[key].kind is not Kind.LAYER:
            return None
        return next((n for n in sorted(self.products) if path in self._list_taken(n)), None)

    def uses_path(self, path: str | None) -> bool:
        """Whether a wrong result rests on a parameter, of the first head if each has its own."""
        read = {self.flow.parameters.get(n) for n in self.slice}
        return path is None or path.format(head=0) in read

    def _list_taken(self, number: int) -> list[str]:
        """Return the paths of the weights that a step takes, perhaps laid out in another way."""
        taken = map(self.flow.skip_layouts, self.flow.steps[number].sources)
        return [self.flow.parameters[n] for n in taken if n in self.flow.parameters]

    def _uses_weight(self, number: int) -> bool:
        return self.flow.does[number] is Action.LINEAR or bool(self._list_taken(number))

    def _list_candidates(self, stage: OracleStage, possible: set[int]) -> list[int]:
        """Return the steps of a stage's size, or else of the size of one of its pieces."""
        left = sorted(possible & self.slice - self.right)
        alike = ([n for n in left if self.flow.numels[n] == size] for size in stage.piece_sizes)
        return next(filter(None, alike), [])

    def _pick(self, key: str, candidates: list[int], given: Sequence[frozenset[int]]) -> int | None:
        stage, does = self.stages[key], self.flow.does
        if stage.by:
            return next((n for n in candidates if does[n] in stage.by), None)
        if stage.kind in MULTIPLIED:
            if stage.kind is Kind.PRODUCT:
                candidates = [n for n in candidates if not self._uses_weight(n)]
            if stage.is_of_keys:  # kernels do not show these
                candidates = [n for n in candidates if does[n] is not Action.KERNEL]
            multiplied = (n for n in candidates if n in self.products)
            return next(chain(multiplied, candidates), None)
        softmaxes = [n for n in candidates if does[n] in NAMED_SOFTMAXES]
        if stage.kind is Kind.SOFTMAX and softmaxes:
            later = self.flow.walk_on(softmaxes[:1], through=self.slice - self.products)
            # A sink may take its share of the weights afterwards.
            return max(later & set(candidates)) if key in self.weights else softmaxes[0]
        return self._pick_step(key, candidates, given)

    def _pick_step(
        self, key: str, candidates: list[int], given: Sequence[frozenset[int]]
    ) -> int | None:
        """Return the last step that follows what is right, before something else is computed."""
        stage, does = self.stages[key], self.flow.does
        ends = self.products | {n for n in self.slice if does[n] in NAMED_SOFTMAXES}
        if stage.kind is Kind.STEP and stage.is_of_keys:  # a softmax may be written by hand
            ends |= {n for n in self.slice if does[n] is Action.EXPONENTIAL}
        each = [self.flow.walk_on(steps, through=self.slice - ends) for steps in given]
        if stage.kind is Kind.SUM:
            return next((n for n in candidates if all(n in reached for reached in each)), None)
        near = [n for n in candidates if n in set().union(*each)]
        if stage.hidden is not None:  # a mask comes from elsewhere
            near = [n for n in near if len(self.flow.steps[n].sources) > 1] or near
        for other, after in self.stages.items():
            if key in after.needs and (layer := self._find_layer(other)) is not None:
                near = [n for n in near if n in self.flow.walk_back([layer]) and n != layer]
        return near[-1] if near else None
