"""Bound a mistake: the lines between what is right and the first stage that is missing."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from headcheck.grader.grading.places.flow import (
    KERNELS,
    LAYOUTS,
    PRODUCTS,
    Flow,
    Position,
    list_between,
    sort_positions,
)
from headcheck.grader.grading.places.matching import UNIT, Pattern
from headcheck.grader.grading.places.search import SUMS, Search
from headcheck.grader.grading.places.stages import Kind, Stages, collect_needed, find_last

JOINS = ("stack", "cat", "concat")
"""functions that lay pieces side by side, which decide what a later layout must be"""
APART = ("qa", "ka")
"""stages that right code may go without, because it compares both parts apart"""


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
class Bounder:
    """Bounds the mistake of a trace that was searched."""

    search: Search

    @property
    def flow(self) -> Flow:
        return self.search.flow

    @property
    def stages(self) -> Stages:
        return self.search.stages

    def bound(self) -> Bound | None:
        """Return the bound of the mistake; None if it is not known."""
        missing = self.search.find_missing()
        if missing is None:
            return self._bound_rest()
        if missing in APART:
            return None
        if (discarded := self._bound_discarded(missing)) is not None:
            return discarded
        if (unused := self._bound_unused()) is not None:
            return unused
        if missing == "masked" and (unmasked := self._bound_unmasked()) is not None:
            return unmasked
        if (scaled := self._bound_scale(missing)) is not None:
            return scaled
        return self._bound_stage(missing)

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
        edge = {n for each in between for n in self.flow.steps[each].sources if n in stops}
        last = [k for k in self.stages if k in given and given[k] & edge]
        last = [k for k in last if not any(k in collect_needed(self.stages, o) for o in last)]
        before, found = self.flow.list_positions(edge), tuple(last)
        if (scrambled := self._find_scrambling(between)) is not None:
            return self._bound_scrambled(*scrambled, before, found)
        skipped = missing != key and not any(self.flow.steps[n].kind in KERNELS for n in between)
        computing = {n for n in between if self.flow.steps[n].kind not in LAYOUTS}
        left_out = skipped and not any(self.flow.steps[n].sources for n in computing - {step})
        if not skipped or missing in ("q", "k", "v"):
            between |= self._list_exchanged(key, step, edge)
        lines = self._add_pieces(self._add_fed(between), edge)
        if skipped or (key == "angles" and "unscaled" in last):
            lines = self._add_span(missing, step, edge, lines)
        lines = self._add_turning(missing, edge, lines)
        if self._has_other_heads(key, step):
            lines = self.flow.add_sizes(sort_positions([*lines, *before]))
        if self.flow.steps[step].kind == "linear" and self.flow.steps[step].sources[0] in stops:
            lines = self.flow.add_layers(lines, step)
        stage = missing if left_out else key
        return Bound(stage, step, lines, before, found, is_left_out=left_out)

    def _bound_scrambled(
        self, name: str, at: int, before: tuple[Position, ...], found: tuple[str, ...]
    ) -> Bound:
        """Return the bound of a step that lays out right numbers wrongly."""
        joined = [n for n in self.flow.steps[at].sources if self.flow.steps[n].kind in JOINS]
        lines = self._add_fed([at, *joined])
        lines = self.flow.add_sizes(lines) if name in ("q", "k", "v") else lines
        return Bound(name, at, lines, before, found, scrambles=name)

    def _add_pieces(self, lines: tuple[Position, ...], edge: set[int]) -> tuple[Position, ...]:
        """Add the lines that set what pieces of a stage, made in a loop, depend on."""
        matches = [match for match in self.search.found.values() if not match.whole]
        pieces = {n for n in edge if any(n in match.steps for match in matches)}
        fed = set(self._add_fed(pieces)) - set(self.flow.list_positions(pieces))
        return sort_positions({*lines, *fed}) if pieces else lines

    def _add_span(
        self, missing: str, step: int, edge: set[int], lines: tuple[Position, ...]
    ) -> tuple[Position, ...]:
        """Add all lines between what is right and a step before which something is left out."""
        lines = self._span(self._list_begins(missing) or edge, step, lines)
        called = [n for n in edge if self.flow.steps[n].outer is not None]
        return sort_positions([*lines, *self.flow.list_returns(called)])

    def _add_turning(
        self, missing: str, edge: set[int], lines: tuple[Position, ...]
    ) -> tuple[Position, ...]:
        """Add the lines of the angles if what they rotate is missing."""
        if missing[1:] != "r" or "angles" not in self.search.found:
            return lines
        turning = edge & self.search.found["angles"].steps
        return sort_positions([*lines, *self.flow.list_positions(turning)])

    def _list_begins(self, missing: str) -> set[int]:
        """Return the first step that gives what a missing stage is made of."""
        needs = self.stages[missing].needs
        own = [n for n in needs if not any(n in collect_needed(self.stages, o) for o in needs)]
        met = (k for k in own[:1] if self.search.is_met(k))
        used = (self.search.found[k].steps & self.search.slice for k in met)
        return {min(steps) for steps in used if steps}

    def _span(self, edge: set[int], step: int, lines: tuple[Position, ...]) -> tuple[Position, ...]:
        """Return the lines from what is right to the step before which something is left out."""
        before = [at for n in edge for at in self.flow.list_around(n)]
        after = self.flow.list_around(step)
        own = *lines, *self.flow.list_positions(edge)
        return sort_positions([*own, *list_between(before, after)])

    def _list_exchanged(self, key: str, step: int, edge: set[int]) -> set[int]:
        """Return the steps of what a product takes, if each of it is right, but for something else.

        Queries may be compared with queries; then the names may have been given on earlier lines.
        """
        sources = set(self.flow.steps[step].sources)
        if self.flow.steps[step].kind in KERNELS:
            own = [self.search.found.get(find_last(self.stages, k)) for k in "qkv"]
            given = self.flow.steps[step].sources[:3]
            if all(m is not None and n in m.steps for m, n in zip(own, given, strict=False)):
                return set()
            sources = set(given)
        elif self.stages[key].kind is not Kind.PRODUCT and key not in SUMS:
            return set()
        if not sources <= self.search.right:
            return set()
        needs = [
            self.search.found[k].steps for k in self.stages[key].needs if self.search.is_met(k)
        ]
        turned = key in self.search.found and not self.search.found[key].upright
        if len(needs) > 1 and all(steps & sources for steps in needs) and not turned:
            return set()
        if key in SUMS:
            return sources
        starts = {
            n
            for k in ("xq", "xk", "xv", "entered")
            if k in self.search.found
            for n in self.search.found[k].steps
        }
        roles = (m.steps for k, m in self.search.found.items() if k[0] in "qkv")
        compared = edge & frozenset[int]().union(*roles)
        return self.flow.walk_back(compared, starts) & self.search.right

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

    def _bound_scale(self, missing: str) -> Bound | None:
        """Return the bound if scores are right but for a factor."""
        factors = self._list_factors()
        if not factors or missing not in ("maps", "weights") or self._is_linear():
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
        key = next(k for k in ("scores", "masked") if k in self.search.found)
        step = max(n for n in factors if n in self.search.found[key].steps)
        lines = self._add_fed(between)
        return Bound(key, step, lines, at, (key,), factor=factors[last])

    def _is_linear(self) -> bool:
        return self.stages["scores"].name == "products"

    def _list_factors(self) -> dict[int, float]:
        """Return the factors of all scores, masked or not, on which a wrong result rests."""
        scored = [k for k in ("scores", "masked") if k in self.search.found]
        found = {n: f for k in scored for n, f in self.search.found[k].factors.items()}
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
            return Bound(missing, None, self._add_fed(self.search.slice), (), ())
        at = self.flow.list_positions(frontier)
        ends = self.flow.list_returns(frontier)
        lines = {*at, *ends, *list_between(at, ends)}
        last = tuple(k for k, match in self.search.found.items() if match.steps & set(frontier))
        return Bound(missing, None, sort_positions(lines), at, last, is_left_out=True)

    def _has_other_heads(self, key: str, step: int) -> bool:
        """Whether a step gives scores of one head, and no loop gives those of the others."""
        stage, shape = self.stages[key], self.flow.steps[step].shape
        if key != "scores" or math.prod(shape) == stage.numel:
            return False
        at, kind = self.flow.get_position(step), self._get_kind(step)
        steps = range(len(self.flow.steps))
        alike = [n for n in steps if self.flow.get_position(n) == at and self._get_kind(n) == kind]
        return len([n for n in alike if self.flow.steps[n].shape == shape]) == 1

    def _bound_rest(self) -> Bound | None:
        """Return the bound if all stages are found, but something else is returned."""
        last = self.search.target
        if last not in self.search.found:
            return None
        stops = self.search.found[last].steps
        between = self.flow.walk_back([self.search.wrong], stops) - stops
        edge = {n for each in between for n in self.flow.steps[each].sources if n in stops}
        at = self.flow.list_positions(edge or stops)
        if edge and not self.search.right & between:
            return Bound("", None, self._add_fed(between), at, (last,))
        lines = {*self.flow.list_positions([self.search.wrong]), *self.flow.list_returns(stops)}
        return Bound("", None, sort_positions(lines), at, (last,))

    def _bound_discarded(self, missing: str) -> Bound | None:
        """Return the bound if something that the missing stage needs is right, but not used."""
        for key in self.stages[missing].needs:
            if key not in ("context", "gated", "attended", "bare", "added", "forwarded"):
                continue
            steps = self.search.found[key].steps if self.search.is_met(key) else frozenset[int]()
            if steps and not steps & self.search.slice:
                at = sort_positions(p for n in steps for p in self.flow.list_around(n)[-1:])
                end = self.search.choose_candidate(missing)
                after = None if end is None else self.flow.list_around(end)[-1:]
                ends = sort_positions(self.flow.list_returns(steps) if after is None else after)
                if not self.search.slice & self.search.right:
                    ends = self.flow.list_positions(self.search.slice)
                lines = sort_positions([*at, *ends])
                return Bound(key, max(steps), lines, at, (key,), is_unused=True)
        return None

    def _bound_unused(self) -> Bound | None:
        """Return the bound if a stage is right, but nothing that is returned rests on it."""
        for key, match in self.search.found.items():
            stage = self.stages[key]
            dead = match.steps - self.search.slice
            if (
                dead != match.steps
                or stage.optional
                or self.flow.walk_on(dead) & self.search.right - dead
            ):
                continue
            used = [
                k
                for k in stage.needs
                if k in self.search.found and self.search.found[k].steps & self.search.slice
            ]
            if not used or self.search.has_met_successor(key) or stage.axes != "bhts":
                continue
            from_used = set().union(*(self.search.found[k].steps & self.search.slice for k in used))
            after = {
                n for each in from_used for n in self.flow.uses[each] if n in self.search.slice
            }
            lines = self._add_fed({*dead, *(after - self.search.right)})
            return Bound(
                key, max(dead), lines, self.flow.list_positions(from_used), (key,), is_unused=True
            )
        return None

    def _bound_unmasked(self) -> Bound | None:
        """Return the bound if weights are right but for a mask that was never applied."""
        if "unmasked" not in self.search.found or "cut" in self.search.found:
            return None
        steps = self.search.found["unmasked"].steps & self.search.slice
        after = self.flow.walk_on(steps, through=self._list_between_products()) - steps
        if not steps or any(len(self.flow.steps[n].sources) > 1 for n in after):
            return None
        (key,) = self.stages["unmasked"].needs
        sources = {n for each in steps for n in self.flow.steps[each].sources}
        before = self.flow.list_positions(sources & self.search.right)
        lines = self._span(sources & self.search.right, max(steps), self.flow.list_positions(steps))
        return Bound("masked", max(steps), lines, before, (key,), is_left_out=True)

    def _list_between_products(self) -> set[int]:
        steps = self.flow.steps
        return {n for n in self.search.slice if steps[n].kind not in PRODUCTS}

    def _list_lines(self, numbers: Iterable[int]) -> tuple[Position, ...]:
        """Return the lines of steps; if a helper is right elsewhere, also where it is called."""
        right = {(self.flow.get_position(n), self._get_kind(n)) for n in self.search.right}
        found: list[Position] = []
        for number in sorted(numbers):
            around = self.flow.list_around(number)
            is_right = (self.flow.get_position(number), self._get_kind(number)) in right
            found += around if is_right else around[:1]
        return sort_positions(found)

    def _get_kind(self, number: int) -> str:
        return self.flow.steps[number].kind

    def _add_fed(self, numbers: Iterable[int]) -> tuple[Position, ...]:
        """Return the lines of steps, and those that set the numbers that these lines read."""
        lines = self._list_lines(numbers)
        fed = [
            (at[0], line)
            for at in lines
            if at in self.flow.lines
            for line in self.flow.lines[at].fed_by
        ]
        return sort_positions({*lines, *fed})
