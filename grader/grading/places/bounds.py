"""Bound a mistake: the last stage that is found in a trace, and the first one that is missing.

A stage is missing if its values are nowhere in the trace, and neither are those of a stage that
rests on it. Code may go without a stage, as a fused kernel does; then the next stage that should
have come out is the one that is told. The lines between what is right and what should be this
stage bound the mistake.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headcheck.grader.grading.places.flow import KERNELS, LAYOUTS, PRODUCTS, Flow, Position
from headcheck.grader.grading.places.matching import UNIT, Match, Pattern, find_stage
from headcheck.grader.grading.places.stages import Kind, Stage, Stages, collect_needed, find_last

JOINS = ("stack", "cat", "concat")
"""functions that lay pieces side by side, which decide what a later layout must be"""
MAX_SPAN = 8
"""the most lines between what is right and the next step if something was left out there"""


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


@dataclass(frozen=True, eq=False)
class Search:
    """A trace, and the stages that are looked for in it."""

    flow: Flow
    stages: Stages
    wrong: Sequence[int]
    """the returned steps whose values are wrong"""
    target: str
    """the stage that the first of them should give"""
    exact: float
    layers: Mapping[str, str]
    """the paths of the weights of stages that a layer gives"""

    @cached_property
    def found(self) -> dict[str, Match]:
        """The stages that are found, with the steps that give them."""
        matches = {k: find_stage(s, self.flow.by_size, self.exact) for k, s in self.stages.items()}
        found = {key: match for key, match in matches.items() if match is not None}
        if "adjusted" in self.stages and "scores" in found and found["scores"].is_scaled:
            del found["scores"]  # what is added to them, or limits them, may have any scale
        if "unscaled" in found:  # what scaling leaves as they are is no input of it
            first = found["unscaled"].steps
            later = {n for n in first if self.flow.walk_back([n]) & first - {n}}
            found["unscaled"] = Match(first - later, {})
        return found

    @cached_property
    def right(self) -> frozenset[int]:
        """All steps that give a stage."""
        return frozenset().union(*(m.steps for m in self.found.values() if m.upright))

    @cached_property
    def slice(self) -> set[int]:
        """The steps on which a wrong result rests."""
        return self.flow.walk_back(self.wrong)

    def bound(self) -> Bound | None:
        """Return the bound of the mistake; None if it is not known."""
        missing = self._find_missing()
        if missing is None:
            return self._bound_rest()
        if (unused := self._bound_unused()) is not None:
            return unused
        if missing == "masked" and (unmasked := self._bound_unmasked()) is not None:
            return unmasked
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
            if key == "angles" and self._find_rotation() is None:
                continue
            if key == self.target or key in collect_needed(self.stages, self.target):
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
            joined = [n for n in self.flow.steps[at].sources if self.flow.steps[n].kind in JOINS]
            lines = self._add_fed([at, *joined])
            return Bound(name, at, lines, self.flow.list_positions(edge), tuple(last), scrambles=name)
        between |= self._list_exchanged(key, step, edge)
        kernel = any(self.flow.steps[n].kind in KERNELS for n in between)
        left_out = missing != key and not kernel
        pieces = {n for n in edge if any(n in m.steps and not m.whole for m in self.found.values())}
        lines = self._add_fed(between)
        if pieces:
            fed = set(self._add_fed(pieces)) - set(self.flow.list_positions(pieces))
            lines = tuple(sorted({*lines, *fed}, key=_sort))
        if left_out or (key == "angles" and "unscaled" in last):
            lines = self._span(edge, step, lines)
        if self.flow.steps[step].kind == "linear" and self.flow.steps[step].sources[0] in stops:
            lines = self._add_layers(lines, step)
        return Bound(
            missing if left_out else key,
            step,
            lines,
            self.flow.list_positions(edge),
            tuple(last),
            is_left_out=left_out,
        )

    def _span(
        self, edge: set[int], step: int, lines: tuple[Position, ...]
    ) -> tuple[Position, ...]:
        """Return the lines from what is right to the step before which something is left out."""
        before = [at for n in edge for at in self.flow.list_around(n)]
        after = self.flow.list_around(step)
        found = {*lines, *self.flow.list_positions(edge)}
        for cell, line in after:
            first = max((at[1] for at in before if at[0] == cell and at[1] <= line), default=line)
            if line - first <= MAX_SPAN:
                found |= {(cell, each) for each in range(first, line + 1)}
        return tuple(sorted(found, key=_sort))

    def _list_exchanged(self, key: str, step: int, edge: set[int]) -> set[int]:
        """Return the steps of what a product takes, if each of it is right, but for something else.

        Queries may be compared with queries; then the names may have been given on earlier lines.
        """
        sources = set(self.flow.steps[step].sources)
        if self.flow.steps[step].kind in KERNELS:
            own = [self.found.get(find_last(self.stages, k)) for k in "qkv"]
            given = self.flow.steps[step].sources[:3]
            if all(m is not None and n in m.steps for m, n in zip(own, given, strict=False)):
                return set()
            sources = set(given)
        elif self.stages[key].kind is not Kind.PRODUCT or not sources <= self.right:
            return set()
        if not sources <= self.right:
            return set()
        needs = [self.found[k].steps for k in self.stages[key].needs if self._is_met(k)]
        turned = key in self.found and not self.found[key].upright
        if len(needs) > 1 and all(steps & sources for steps in needs) and not turned:
            return set()
        starts = {n for k in ("xq", "xk", "xv", "entered") if k in self.found for n in self.found[k].steps}
        return self.flow.walk_back(edge, starts) & self.right

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
        if key == "angles":
            return self._find_rotation()
        if (layer := self._find_layer(key)) is not None:
            return layer if layer not in self.right else None
        given = self._list_given(key)
        reached = [self.flow.walk_on(steps) for steps in given]
        from_all = set.intersection(*reached) if reached else set[int]()
        for possible in (from_all, set[int]().union(*reached)):
            candidates = self._list_candidates(stage, possible)
            chosen = self._pick(key, candidates, given) if candidates else None
            if chosen is not None:
                return chosen
        return None

    def _find_rotation(self) -> int | None:
        """Return the step whose cosines and sines are taken."""
        for number in sorted(self.slice):
            step = self.flow.steps[number]
            if step.kind in ("cos", "sin", "polar") and step.sources[-1] not in self.right:
                return step.sources[-1]
        return None

    def _list_given(self, key: str) -> list[frozenset[int]]:
        """Return the steps of what a stage needs, or of what that needs where it is missing."""
        given: list[frozenset[int]] = []
        for need in self.stages[key].needs:
            if self._is_met(need):
                given.append(self.found[need].steps)
            elif need in self.stages:
                given += self._list_given(need)
        return given

    def _find_layer(self, key: str) -> int | None:
        """Return the step in which a stage's own weight is used, if that is known."""
        path = self.layers.get(key)
        if path is None:
            return None
        steps = self.flow.steps
        uses = {n for n, step in enumerate(steps) if step.kind == f"parameter {path}"}
        for number in sorted(self.slice):
            taken = {self._skip_layouts(n) for n in steps[number].sources}
            if steps[number].kind in PRODUCTS and taken & uses:
                return number
        return None

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

    def _list_candidates(self, stage: Stage, possible: set[int]) -> list[int]:
        """Return the steps of a stage's size, or else of the size of one of its pieces."""
        given = ("input ", "parameter ", "buffer ", "constant")
        steps = self.flow.steps
        left = [n for n in sorted(possible & self.slice - self.right) if not steps[n].kind.startswith(given)]
        for size in stage.piece_sizes:
            if found := [n for n in left if _count(steps[n].shape) == size]:
                return found
        return []

    def _pick(
        self, key: str, candidates: list[int], given: Sequence[frozenset[int]]
    ) -> int | None:
        stage, steps = self.stages[key], self.flow.steps
        if stage.kind is Kind.PRODUCT:
            if key in ("scores", "sums", "context"):
                candidates = [n for n in candidates if not self._uses_weight(n)]
            multiplied = [n for n in candidates if steps[n].kind in PRODUCTS]
            written = [n for n in candidates if steps[n].kind in ("__setitem__", "alias", "written")]
            return next(iter(multiplied or written[-1:] or candidates), None)
        softmaxes = [n for n in candidates if "softmax" in steps[n].kind]
        if stage.kind is Kind.SOFTMAX and softmaxes:
            return softmaxes[0]
        ends = {n for n in self.slice if steps[n].kind in PRODUCTS or "softmax" in steps[n].kind}
        segment = self.flow.walk_on(set().union(*given), through=self.slice - ends)
        near = [n for n in candidates if n in segment]
        if stage.hidden is not None:  # a mask comes from elsewhere
            near = [n for n in near if len(steps[n].sources) > 1] or near
        for other, after in self.stages.items():
            if key in after.needs and (layer := self._find_layer(other)) is not None:
                near = [n for n in near if n in self.flow.walk_back([layer]) and n != layer]
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
        lasts = [n for n in factors if not set(self.flow.uses[n]) & set(factors)]
        if changes:
            between = changes
        else:
            needs = collect_needed(self.stages, "scores")
            stops = frozenset().union(*(self.found[k].steps for k in needs if self._is_met(k)))
            own = {m for n in firsts for m in self.flow.walk_back([n], stops)}
            after = {m for n in lasts for m in self.flow.uses[n] if m in self.slice}
            between = own | set(factors) & self.slice | after
        step = max(self.found["scores"].factors)
        factor = self.found["scores"].factors[step]
        lines = self._add_fed(between)
        return Bound("scores", step, lines, self.flow.list_positions(firsts), ("scores",), factor=factor)

    def _bound_end(self) -> Bound | None:
        """Return the bound if no step follows what is right, or nothing is right."""
        missing = self._find_missing()
        if missing is None:
            return None
        frontier = [n for n in self.wrong if n in self.right]
        if not frontier:
            if self.right & self.slice:
                return None
            return Bound(missing, None, self._add_fed(self.slice), (), ())
        at = self.flow.list_positions(frontier)
        lines = {*at, *self._list_returns(frontier)}
        last = tuple(k for k, match in self.found.items() if match.steps & set(frontier))
        return Bound(missing, None, tuple(sorted(lines, key=_sort)), tuple(at), last, is_left_out=True)

    def _add_layers(self, lines: tuple[Position, ...], step: int) -> tuple[Position, ...]:
        """Return lines with those that make the layer of a step, which may have a bias too many."""
        at = self.flow.get_position(step)
        if at is None or at not in self.flow.lines or len(self.flow.lines[at].layers) > 1:
            return lines
        made = {(at[0], line) for line in self.flow.lines[at].layers}
        return tuple(sorted({*lines, *made}, key=_sort))

    def _bound_rest(self) -> Bound | None:
        """Return the bound if all stages are found, but something else is returned."""
        last = self.target
        if last not in self.found:
            return None
        stops = self.found[last].steps
        between = self.flow.walk_back(self.wrong, stops) - stops
        edge = {n for each in between for n in self.flow.steps[each].sources if n in stops}
        at = self.flow.list_positions(edge or stops)
        if edge and not self.right & between:
            return Bound("", None, self._add_fed(between), at, (last,))
        lines = {*self.flow.list_positions(self.wrong), *self._list_returns(stops)}
        return Bound("", None, tuple(sorted(lines, key=_sort)), at, (last,))

    def _list_returns(self, steps: Iterable[int]) -> list[Position]:
        """Return the lines on which the functions that compute steps return."""
        found = []
        for cell, line in {at for n in steps for at in self.flow.list_around(n)}:
            near = self.flow.lines.get((cell, line))
            if near is not None and near.returns is not None:
                found.append((cell, near.returns))
        return found

    def _bound_unused(self) -> Bound | None:
        """Return the bound if a stage is right, but nothing that is returned rests on it."""
        for key, match in self.found.items():
            stage = self.stages[key]
            dead = match.steps - self.slice
            if dead != match.steps or stage.optional or self.flow.walk_on(dead) & self.right - dead:
                continue
            used = [k for k in stage.needs if k in self.found and self.found[k].steps & self.slice]
            if not used or self._has_met_successor(key) or stage.axes != "bhts":
                continue
            from_used = set().union(*(self.found[k].steps & self.slice for k in used))
            after = {n for each in from_used for n in self.flow.uses[each] if n in self.slice}
            lines = self._add_fed({*dead, *(after - self.right)})
            return Bound(key, max(dead), lines, self.flow.list_positions(from_used), (key,), is_unused=True)
        return None

    def _bound_unmasked(self) -> Bound | None:
        """Return the bound if weights are right but for a mask that was never applied."""
        if "unmasked" not in self.found or "cut" in self.found:
            return None
        steps = self.found["unmasked"].steps & self.slice
        after = self.flow.walk_on(steps, through=self._list_between_products()) - steps
        if not steps or any(len(self.flow.steps[n].sources) > 1 for n in after):
            return None
        [key] = [k for k in self.stages["unmasked"].needs]
        sources = {n for each in steps for n in self.flow.steps[each].sources}
        before = self.flow.list_positions(sources & self.right)
        lines = self._span(sources & self.right, max(steps), tuple(self.flow.list_positions(steps)))
        return Bound("masked", max(steps), lines, tuple(before), (key,), is_left_out=True)

    def _list_between_products(self) -> set[int]:
        steps = self.flow.steps
        return {n for n in self.slice if steps[n].kind not in PRODUCTS}

    def _add_fed(self, numbers: Iterable[int]) -> tuple[Position, ...]:
        """Return the lines of steps, and those that set the numbers that these lines read."""
        lines = self.flow.list_positions(numbers)
        fed = [
            (at[0], line)
            for at in lines
            if at in self.flow.lines
            for line in self.flow.lines[at].fed_by
        ]
        return tuple(sorted({*lines, *fed}, key=_sort))


def _sort(at: Position) -> tuple[int, int]:
    return at[0] or 0, at[1]


def _count(shape: Sequence[int]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size
