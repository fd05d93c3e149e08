"""Bound a mistake: the last stage that is found in a trace, and the first one that is missing.

A stage is missing if its values are nowhere in the trace, and neither are those of a stage that
rests on it. Code may go without a stage, as a fused kernel does; then the next stage that should
have come out is the one that is told. The lines between what is right and what should be this
stage bound the mistake.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from headcheck.grader.grading.places.flow import KERNELS, LAYOUTS, PRODUCTS, Flow, Position
from headcheck.grader.grading.places.matching import Match, Pattern, find_stage
from headcheck.grader.grading.places.stages import Kind, Stage, Stages, collect_needed

UNIT = 1e-6
"""how far the factor of scores may be from one"""


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


@dataclass(frozen=True, eq=False)
class Search:
    """A trace, and the stages that are looked for in it."""

    flow: Flow
    stages: Stages
    wrong: Sequence[int]
    """the returned steps whose values are wrong"""
    exact: float

    @cached_property
    def found(self) -> dict[str, Match]:
        """The stages that are found, with the steps that give them."""
        matches = {k: find_stage(s, self.flow.by_size, self.exact) for k, s in self.stages.items()}
        return {key: match for key, match in matches.items() if match is not None}

    @cached_property
    def right(self) -> frozenset[int]:
        """All steps that give a stage."""
        return frozenset().union(*(match.steps for match in self.found.values()))

    @cached_property
    def slice(self) -> set[int]:
        """The steps on which a wrong result rests."""
        return self.flow.walk_back(self.wrong)

    def bound(self) -> Bound | None:
        """Return the bound of the mistake; None if it is not known."""
        missing = self._find_missing()
        if missing is None:
            return self._bound_end()
        if (scaled := self._bound_scale(missing)) is not None:
            return scaled
        return self._bound_stage(missing)

    def _is_met(self, key: str) -> bool:
        match = self.found.get(key)
        return match is not None and match.upright

    def _find_missing(self) -> str | None:
        """Return the first stage that is missing, although all that it needs could be there."""
        for key, stage in self.stages.items():
            if stage.optional or self._is_met(key) or self._has_met_successor(key):
                continue
            return key
        return None

    def _has_met_successor(self, key: str) -> bool:
        return any(
            self._is_met(other) and key in collect_needed(self.stages, other)
            for other in self.stages
        )

    def _iter_following(self, key: str) -> Iterator[str]:
        """Yield a stage and those that rest on it, in order."""
        yield key
        for other in self.stages:
            if key in collect_needed(self.stages, other) and not self.stages[other].optional:
                yield other

    def _bound_stage(self, missing: str) -> Bound | None:
        for key in self._iter_following(missing):
            step = self._choose_candidate(key)
            if step is not None:
                return self._make_bound(missing, key, step)
        return self._bound_end()

    def _make_bound(self, missing: str, key: str, step: int) -> Bound:
        needed = collect_needed(self.stages, key)
        # Of what is compared, transposed scores are not known to be right.
        given = {k: self.found[k].steps for k in needed if self._is_met(k)}
        stops = frozenset().union(*given.values()) if given else frozenset()
        between = self.flow.walk_back([step], stops) & self.slice | {step}
        edge = {n for each in between for n in self.flow.steps[each].sources if n in stops}
        last = [k for k in given if given[k] & edge]
        last = [k for k in last if not any(k in collect_needed(self.stages, o) for o in last)]
        if (scrambled := self._find_scrambling(between)) is not None:
            name, at = scrambled
            lines = self._add_fed([at])
            return Bound(name, at, lines, self.flow.list_positions(edge), tuple(last), scrambles=name)
        kernel = any(self.flow.steps[n].kind in KERNELS for n in between)
        left_out = missing != key and self.stages[missing].kind is Kind.STEP and not kernel
        lines = self._add_fed(between)
        if left_out:
            lines = tuple(dict.fromkeys((*self.flow.list_positions(edge), *lines)))
        return Bound(
            missing if left_out else key,
            step,
            lines,
            self.flow.list_positions(edge),
            tuple(last),
            is_left_out=left_out,
        )

    def _find_scrambling(self, between: Iterable[int]) -> tuple[str, int] | None:
        """Return the first step that lays out right numbers wrongly, and what these are."""
        for number in sorted(between):
            step = self.flow.steps[number]
            if step.kind not in LAYOUTS or number in self.right or len(step.sources) != 1:
                continue
            [source] = step.sources
            for key, match in self.found.items():
                if source in match.steps and match.whole and number in self.flow.values:
                    stage = self.stages[key]
                    pattern = Pattern(
                        stage.values, stage.axes, stage.hidden, stage.any_scale, self.exact
                    )
                    same = self.flow.values[number].values.numel() == stage.numel
                    if same and pattern.find_order(self.flow.values[number]) is None:
                        return key, number
        return None

    def _choose_candidate(self, key: str) -> int | None:
        """Return the step that should have given a stage."""
        stage = self.stages[key]
        given = [self.found[k].steps for k in stage.needs if self._is_met(k)]
        if not given:
            needed = collect_needed(self.stages, key)
            given = [self.found[k].steps for k in needed if self._is_met(k)]
        reached = [self.flow.walk_on(steps) for steps in given]
        from_all = set.intersection(*reached) if reached else set[int]()
        for possible in (from_all, set[int]().union(*reached)):
            usual = self._list_candidates(stage, possible)
            if usual:
                chosen = self._pick(stage, usual, given)
                if chosen is not None:
                    return chosen
        return None

    def _list_candidates(self, stage: Stage, possible: set[int]) -> list[int]:
        steps = self.flow.steps
        given = ("input ", "parameter ", "buffer ", "constant")
        return [
            number
            for number in sorted(possible & self.slice - self.right)
            if not steps[number].kind.startswith(given) and _count(steps[number].shape) == stage.numel
        ]

    def _pick(
        self, stage: Stage, candidates: list[int], given: Sequence[frozenset[int]]
    ) -> int | None:
        steps = self.flow.steps
        if stage.kind is Kind.PRODUCT:
            multiplied = [n for n in candidates if steps[n].kind in PRODUCTS]
            return (multiplied or candidates)[0]
        softmaxes = [n for n in candidates if "softmax" in steps[n].kind]
        if stage.kind is Kind.SOFTMAX and softmaxes:
            return softmaxes[0]
        ends = {n for n in self.slice if steps[n].kind in PRODUCTS or "softmax" in steps[n].kind}
        segment = self.flow.walk_on(set().union(*given), through=self.slice - ends)
        near = [n for n in candidates if n in segment]
        return near[-1] if near else None

    def _bound_scale(self, missing: str) -> Bound | None:
        """Return the bound if scores are right but for a factor."""
        scored = [k for k in ("scores", "masked") if k in self.found and self.stages[k].any_scale]
        if not scored or missing not in ("adjusted", "masked", "unmasked", "maps", "weights"):
            return None
        if self.stages["scores"].name == "products":
            return None
        factors = {n: f for k in scored for n, f in self.found[k].factors.items()}
        if any(abs(f - 1) < UNIT for n, f in factors.items() if n in self.slice):
            return None
        if missing == "masked":
            return None
        changes, firsts = set[int](), set[int]()
        for number, factor in factors.items():
            before = [factors[n] for n in self.flow.steps[number].sources if n in factors]
            if not before:
                firsts.add(number)
            elif all(abs(f / factor - 1) > UNIT for f in before):
                changes.add(number)
        factor = factors[max(factors)]
        lasts = [n for n in factors if not set(self.flow.uses[n]) & set(factors)]
        if changes:
            between = changes
        else:
            needs = collect_needed(self.stages, "scores")
            stops = frozenset().union(*(self.found[k].steps for k in needs if self._is_met(k)))
            own = {m for n in firsts for m in self.flow.walk_back([n], stops)}
            after = {m for n in lasts for m in self.flow.uses[n] if m in self.slice}
            between = own | set(factors) & self.slice | after
        before_all = self.flow.list_positions(firsts)
        return Bound("scores", max(lasts), self._add_fed(between), before_all, ("scores",), factor=factor)

    def _bound_end(self) -> Bound | None:
        """Return the bound if all stages are found, or no step follows the last one found."""
        frontier = [n for n in self.wrong if n in self.right]
        if not frontier:
            return None
        missing = self._find_missing()
        if missing is None:
            return None
        at = self.flow.list_positions(frontier)
        ends = [
            (cell, near.returns)
            for cell, line in at
            if (near := self.flow.lines.get((cell, line))) is not None and near.returns is not None
        ]
        last = tuple(k for k, match in self.found.items() if match.steps & set(frontier))
        lines = tuple(dict.fromkeys((*at, *ends)))
        return Bound(missing, None, lines, tuple(at), last, is_left_out=True)

    def _add_fed(self, numbers: Iterable[int]) -> tuple[Position, ...]:
        """Return the lines of steps, and those that set the numbers that these lines read."""
        lines = self.flow.list_positions(numbers)
        fed = [
            (at[0], line)
            for at in lines
            if at in self.flow.lines
            for line in self.flow.lines[at].fed_by
        ]
        return tuple(sorted({*lines, *fed}, key=lambda at: (at[0] or 0, at[1])))


def _count(shape: Sequence[int]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size
