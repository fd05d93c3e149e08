"""Bound a mistake: the lines between what is right and the first stage that is missing."""

import math
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from headcheck.grader.grading.places.flow import (
    KERNELS,
    LAYOUTS,
    Position,
    list_between,
    sort_positions,
)
from headcheck.grader.grading.places.lines import JOINS, Bound, LineFinder
from headcheck.grader.grading.places.masks import MaskReader
from headcheck.grader.grading.places.matching import UNIT, Pattern
from headcheck.grader.grading.places.stage_search import SearchReader
from headcheck.grader.grading.places.stages import Kind, collect_needed, find_last
from headcheck.grader.grading.places.unused import Unused

SHARED = "Several weights, which should differ, are one and the same."
LACKING = "A weight that the statement asks for is missing."


@dataclass(frozen=True, eq=False)
class Bounder(SearchReader):
    """Bounds the mistake of a trace that was searched."""

    lines: LineFinder

    def bound(self) -> Bound | None:
        """Return the bound of the mistake; None if it is not known."""
        if (weights := self._bound_weights()) is not None:
            return weights
        missing = self.search.find_missing()
        if missing is None:
            return self._bound_apart() or self._bound_rest()
        if (unused := Unused(self.search, self.lines).bound(missing)) is not None:
            return unused
        if (scaled := self._bound_scale(missing)) is not None:
            return scaled
        return self._bound_stage(missing)

    def _bound_weights(self) -> Bound | None:
        """Return the bound if weights of the statement are one and the same, or missing."""
        pairs = zip(self.flow.shared[::2], self.flow.shared[1::2], strict=False)
        shared = [p for p in pairs if all(each.path in self.search.paths for each in p)]
        lines = {at for pair in shared for each in pair for at in each.lines}
        if lines:
            return Bound("", None, sort_positions(lines), (), (), weights=SHARED)
        layers = {path.rpartition(".")[0] for path in self.search.lacking} - {""}
        made = [p for path, p in self.flow.made.items() if path.rpartition(".")[0] in layers]
        lines = {at for positions in made for at in positions}
        return Bound("", None, sort_positions(lines), (), (), weights=LACKING) if lines else None

    def _bound_stage(self, missing: str) -> Bound | None:
        for key in self.search.iter_following(missing):
            step = self.search.choose_candidate(key)
            if step is not None:
                return self._make_bound(missing, key, step)
        return self._bound_end()

    def _make_bound(self, missing: str, key: str, step: int) -> Bound:
        """Return the bound between what is right and the step that should give a stage."""
        needed = collect_needed(self.stages, key)
        # Of what is compared, transposed scores are not known to be right.
        given = {k: self.search.found[k].steps for k in needed if self.search.is_met(k)}
        stops = frozenset().union(*given.values()) if given else frozenset()
        between = self.flow.walk_back([step], stops) & self.search.slice | {step}
        edge = self.flow.find_edge(between, stops)
        last = [k for k in self.stages if k in given and given[k] & edge]
        last = [k for k in last if not any(k in collect_needed(self.stages, o) for o in last)]
        before, found = self.flow.list_positions(edge), tuple(last)
        scrambled = self._find_scrambling(between) or self._find_unmerged(key, step)
        if scrambled is not None:
            return self._bound_scrambled(*scrambled, before, found)
        skipped = missing != key and not any(self.flow.steps[n].kind in KERNELS for n in between)
        computing = {n for n in between if self.flow.steps[n].kind not in LAYOUTS}
        left_out = skipped and not any(self.flow.steps[n].sources for n in computing - {step})
        if not skipped or self._is_projected(missing):
            kernels = [n for n in sorted(between) if self.flow.steps[n].kind in KERNELS]
            between |= self._list_exchanged(key, next(iter(kernels), step), edge)
        if (
            self.stages[key].kind in (Kind.STEP, Kind.SUM)
            and between == {step}
            and step not in stops
        ):
            between |= edge
        if (hidden := self.stages[key].hidden) is not None:
            between = MaskReader(self.search).list_suspects(step, hidden, between)
        lines = self.lines.add_pieces(self.lines.add_fed(between), edge)
        right = frozenset().union(*(given[k] for k in last))
        thrown = self.lines.list_thrown_away(between | right, self.stages[missing].numel)
        lines = sort_positions([*lines, *thrown])
        if skipped:
            lines = self.lines.add_span(missing, step, edge, lines)
        lines = self.lines.add_turning(missing, edge, lines)
        lines = self.lines.add_gains(missing, step, lines)
        if self._has_other_heads(key, step):
            lines = self.flow.add_sizes(sort_positions([*lines, *before]))
        lines = self._add_unknown(lines, step, stops)
        stage = missing if left_out else key
        return Bound(stage, step, lines, before, found, is_left_out=left_out)

    def _add_unknown(
        self, lines: tuple[Position, ...], step: int, stops: Set[int]
    ) -> tuple[Position, ...]:
        """Add the lines that make a layer with a weight too many, or one of which a bias lacks."""
        taken = self.flow.list_weights(step)
        unknown = [path for path in taken if path not in self.search.paths]
        own = [f"{path.removesuffix('weight')}bias" for path in taken]
        lacks = [path for path in own if path in self.search.paths and path not in taken]
        if self.flow.steps[step].kind != "linear" or self.flow.steps[step].sources[0] not in stops:
            return lines
        made = [
            at
            for path in (*unknown, *(taken if lacks else ()))
            for at in self.flow.made.get(path, ())
        ]
        return sort_positions([*lines, *made])

    def _bound_scrambled(
        self, name: str, at: int, before: tuple[Position, ...], found: tuple[str, ...]
    ) -> Bound:
        """Return the bound of a step that lays out right numbers wrongly.

        If it gives the right shape, the sizes that it reads are right.
        """
        joined = [n for n in self.flow.steps[at].sources if self.flow.steps[n].kind in JOINS]
        shapes = self.flow.steps[at].shape, tuple(self.stages[name].values.shape)
        given, right = ([n for n in shape if n != 1] for shape in shapes)
        if given == right:
            lines = self.lines.list_lines([at, *joined])
        else:
            fed = self.lines.add_fed([at, *joined])
            lines = self.flow.add_sizes(fed) if self._is_projected(name) else fed
        return Bound(name, at, lines, before, found, scrambles=name)

    def _list_exchanged(self, key: str, step: int, edge: set[int]) -> set[int]:
        """Return the steps of what a product takes, if each of it is right, but for something else.

        Queries may be compared with queries; then the names may have been given on earlier lines.
        """
        sources = set(self.flow.steps[step].sources)
        if self.flow.steps[step].kind in KERNELS:
            own = [self.search.found.get(find_last(self.stages, k)) for k in "qkv"]
            given = [self._find_whole(n) for n in self.flow.steps[step].sources[:3]]
            if all(m is not None and n in m.steps for m, n in zip(own, given, strict=False)):
                return set()
            sources = set(given)
        elif self.stages[key].kind not in (Kind.PRODUCT, Kind.SUM):
            return set()
        if not sources <= self.search.right:
            return set()
        needs = [
            self.search.found[k].steps for k in self.stages[key].needs if self.search.is_met(k)
        ]
        turned = key in self.search.found and not self.search.found[key].upright
        if len(needs) > 1 and all(steps & sources for steps in needs) and not turned:
            return set()
        if self.stages[key].kind is Kind.SUM:
            return sources
        found = [(self.stages[k], match.steps) for k, match in self.search.found.items()]
        starts = (each for stage, each in found if stage.axes == "btd" and stage.kind is Kind.STEP)
        roles = (each for stage, each in found if {*"btw"} <= {*stage.axes})
        compared = edge & frozenset[int]().union(*roles)
        return self.flow.walk_back(compared, frozenset[int]().union(*starts)) & self.search.right

    def _is_projected(self, key: str) -> bool:
        """Whether a stage is the queries, keys or values that a layer gives."""
        return bool(self.stages[key].role) and self.stages[key].kind is Kind.LAYER

    def _find_whole(self, number: int) -> int:
        """Return the step of a stage of which a step is a part, or this itself."""
        whole = number
        while whole not in self.search.right and len(self.flow.steps[whole].sources) == 1:
            [whole] = self.flow.steps[whole].sources
        return whole if whole in self.search.right else number

    def _find_scrambling(self, between: Iterable[int]) -> tuple[str, int] | None:
        """Return the first step that lays out right numbers wrongly, and what these are."""
        for number in sorted(between):
            step = self.flow.steps[number]
            if step.kind not in LAYOUTS or number in self.search.right or len(step.sources) != 1:
                continue
            [source] = step.sources
            for key, match in self.search.found.items():
                if source in match.steps and match.whole and number in self.flow.values:
                    stage = self.stages[key]
                    pattern = Pattern(
                        stage.values, stage.axes, stage.hidden, stage.any_scale, self.search.exact
                    )
                    same = self.flow.values[number].values.numel() == stage.numel
                    if same and pattern.find_order(self.flow.values[number]) is None:
                        return key, number
        return None

    def _find_unmerged(self, key: str, step: int) -> tuple[str, int] | None:
        """Return the step that lays heads side by side otherwise than a layer takes them."""
        need, stage = key, self.stages[key]
        while stage.kind is Kind.LAYER and stage.axes == "btd":
            need = stage.needs[0]
            stage = self.stages[need]
        if need == key or stage.axes != "bhtw" or not self.search.is_met(need):
            return None
        merged = stage.values.transpose(1, 2).flatten(2)
        for number in self.flow.steps[step].sources:
            got = self.flow.values.get(number)
            if (
                number in self.search.found[need].steps
                and got
                and got.shape[-1] == merged.shape[-1]
            ):
                pattern = Pattern(merged, "btd", exact=self.search.exact)
                if pattern.find_order(got) is None:
                    return need, number
        return None

    def _bound_scale(self, missing: str) -> Bound | None:
        """Return the bound if scores are right but for a factor."""
        factors = self._list_factors()
        if not factors or self.stages[missing].kind is not Kind.SOFTMAX:
            return None
        lasts = [n for n in factors if not set(self.flow.uses[n]) & set(factors)]
        if all(abs(factors[n] - 1) < UNIT for n in lasts):
            return None
        sources = {n: [m for m in self.flow.steps[n].sources if m in factors] for n in factors}
        changes = {
            n
            for n, before in sources.items()
            if before and all(abs(factors[m] / factors[n] - 1) > UNIT for m in before)
        }
        changes = {n for n in changes if abs(factors[n] - 1) > UNIT}
        firsts = {n for n, before in sources.items() if not before}
        between = changes or self._list_unscaled(firsts, lasts, set(factors))
        last, at = max(lasts), self.flow.list_positions(firsts)
        key = self._list_scaled()[0]
        step = max(n for n in factors if n in self.search.found[key].steps)
        lines = self.lines.add_fed(between)
        return Bound(key, step, lines, at, (key,), factor=factors[last])

    def _list_scaled(self) -> list[str]:
        """Return which scores are found, masked or not, that may have any scale."""
        found = ((k, self.stages[k]) for k in self.search.found)
        return [k for k, s in found if s.is_of_keys and s.any_scale and not s.scaled_later]

    def _list_factors(self) -> dict[int, float]:
        """Return the factors of all scores, masked or not, on which a wrong result rests."""
        scaled = (self.search.found[k].factors for k in self._list_scaled())
        found = {n: f for factors in scaled for n, f in factors.items()}
        return {n: f for n, f in found.items() if n in self.search.slice}

    def _list_unscaled(self, firsts: set[int], lasts: list[int], scored: set[int]) -> set[int]:
        """Return the steps from the product of queries and keys to what takes unscaled scores."""
        needs = collect_needed(self.stages, "scores")
        met = (self.search.found[k].steps for k in needs if self.search.is_met(k))
        stops = frozenset[int]().union(*met)
        own = {m for n in firsts for m in self.flow.walk_back([n], stops)}
        after = {m for n in lasts for m in self.flow.uses[n] if m in self.search.slice}
        return own | scored | after

    def _bound_end(self) -> Bound | None:
        """Return the bound if no step follows what is right, or nothing is right."""
        missing = self.search.find_missing()
        if missing is None:
            return None
        frontier = {self.search.wrong} & self.search.right
        if not frontier:
            if self.search.right & self.search.slice:
                return None
            return Bound(missing, None, self.lines.add_fed(self.search.slice), (), ())
        at = self.flow.list_positions(frontier)
        ends = self.flow.list_returns(self.flow.list_all_around(frontier))
        lines = {*at, *ends, *list_between(at, ends)} or set(self.flow.ends)
        last = tuple(k for k, match in self.search.found.items() if match.steps & set(frontier))
        return Bound(missing, None, sort_positions(lines), at, last, is_left_out=True)

    def _has_other_heads(self, key: str, step: int) -> bool:
        """Whether a step gives scores of one head, and no loop gives those of the others."""
        stage, shape = self.stages[key], self.flow.steps[step].shape
        of_keys = stage.is_of_keys and stage.kind is Kind.PRODUCT
        if not of_keys or math.prod(shape) == stage.numel:
            return False
        at, kind = self.flow.get_position(step), self.lines.get_kind(step)
        steps = range(len(self.flow.steps))
        same = (n for n in steps if self.flow.get_position(n) == at)
        alike = [n for n in same if self.lines.get_kind(n) == kind]
        return len([n for n in alike if self.flow.steps[n].shape == shape]) == 1

    def _bound_apart(self) -> Bound | None:
        """Return the bound of a second result, if it rests on nothing that gives the first."""
        last, used = self.search.target, self.search.slice
        if last not in self.search.found or self.search.found[last].steps & used:
            return None
        values = {n: each for n, each in self.flow.values.items() if n in used}
        search = replace(self.search, flow=replace(self.flow, values=values))
        return Bounder(search, LineFinder(search)).bound()

    def _bound_rest(self) -> Bound | None:
        """Return the bound if all stages are found, but something else is returned.

        If that is no number, a stage was found by coincidence: some other tensor equals it.
        """
        last, returned = self.search.target, self.flow.values.get(self.search.wrong)
        if last not in self.search.found:
            return None
        if returned is not None and not bool(returned.values.isfinite().all()):
            return None
        stops = self.search.found[last].steps
        between = self.flow.walk_back([self.search.wrong], stops) - stops
        edge = self.flow.find_edge(between, stops)
        at = self.flow.list_positions(edge or stops)
        if edge and not self.search.right & between:
            return Bound("", None, self.lines.add_fed(between), at, (last,))
        ends = self.flow.list_returns(self.flow.list_all_around(stops))
        lines = {*self.flow.list_positions([self.search.wrong]), *ends}
        return Bound("", None, sort_positions(lines), at, (last,))
