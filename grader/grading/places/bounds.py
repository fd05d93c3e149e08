"""Bound a mistake: the lines between what is right and the first stage that is missing."""

from collections.abc import Set
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headcheck.grader.grading.places.lines import Bound
from headcheck.grader.grading.places.matching import UNIT, Pattern, make_pattern
from headcheck.grader.grading.places.stages import ROLES, Kind, find_last
from headcheck.grader.grading.places.unused import Unused
from headcheck.grader.grading.tracing.graph import Flow
from headcheck.grader.grading.tracing.operations import Action
from headcheck.grader.grading.tracing.positions import Position, list_between

SHARED = "Several weights, which should differ, are one and the same."
LACKING = "A weight that the statement asks for is missing."
HIDDEN = -1e4
"""scores below this are hidden"""


@dataclass(frozen=True, eq=False)
class Bounder(Unused):
    """Bounds the mistake of a trace that is searched."""

    def bound(self) -> Bound | None:
        """Return the bound of the mistake; None if it is not known."""
        if (weights := self._bound_weights()) is not None:
            return weights
        missing = self.find_missing()
        if missing is None:
            return self._bound_apart() or self._bound_rest()
        known = self.bound_unused(missing) or self._bound_scale(missing)
        return known or self._bound_stage(missing)

    def _bound_weights(self) -> Bound | None:
        """Return the bound if weights of the statement are one and the same, or missing."""
        shared = [p for p in self.flow.shared if all(each.path in self.paths for each in p)]
        lines = {at for pair in shared for each in pair for at in each.lines}
        if lines:
            return Bound("", None, lines, (), (), weights=SHARED)
        layers = {path.rpartition(".")[0] for path in self.lacking} - {""}
        made = [p for path, p in self.flow.made.items() if path.rpartition(".")[0] in layers]
        lines = {at for positions in made for at in positions}
        return Bound("", None, lines, (), (), weights=LACKING) if lines else None

    def _bound_stage(self, missing: str) -> Bound | None:
        for key in self.iter_following(missing):
            if (step := self.choose_candidate(key)) is not None:
                return self._make_bound(missing, key, step)
        return self._bound_end(missing)

    def _make_bound(self, missing: str, key: str, step: int) -> Bound:
        """Return the bound between what is right and the step that should give a stage."""
        needed = self.needed[key]
        # Of what is compared, transposed scores are not known to be right.
        given = {k: self.found[k].steps for k in needed if self.is_met(k)}
        stops = frozenset().union(*given.values()) if given else frozenset()
        between = self.flow.walk_back([step], stops) & self.slice | {step}
        edge = self.flow.find_edge(between, stops)
        last = [k for k in self.stages if k in given and given[k] & edge]
        last = [k for k in last if not any(k in self.needed[o] for o in last)]
        before, found = self.flow.list_positions(edge), tuple(last)
        scrambled = self._find_scrambling(between) or self._find_unmerged(key, step)
        if scrambled is not None:
            return self._bound_scrambled(*scrambled, before, found)
        skipped = missing != key and not any(self.flow.does[n] is Action.KERNEL for n in between)
        computing = {n for n in between if self.flow.does[n] is not Action.LAYOUT}
        left_out = skipped and not any(self.flow.steps[n].sources for n in computing - {step})
        if not skipped or self.stages[missing].is_projected:
            kernels = [n for n in sorted(between) if self.flow.does[n] is Action.KERNEL]
            between |= self._list_exchanged(key, next(iter(kernels), step), edge)
        alone = between == {step} - stops
        if alone and self.stages[key].kind in (Kind.STEP, Kind.SUM):
            between |= edge
        if (hidden := self.stages[key].hidden) is not None:
            between = _list_suspects(self.flow, step, hidden, between)
        lines = self.add_fed(between) | self.list_feeding_pieces(edge)
        right = frozenset().union(*(given[k] for k in last))
        lines |= self.list_thrown_away(between | right, self.stages[missing].numel)
        if skipped:
            lines |= self.list_all_between(missing, step, edge)
        lines |= self.list_turning(missing, edge) | self.list_gains(missing, step)
        if self._has_other_heads(key, step):
            lines = self.flow.add_sizes(lines | {*before})
        if self.flow.does[step] is Action.LINEAR and self.flow.steps[step].sources[0] in stops:
            lines |= self._list_unknown(step)
        stage = missing if left_out else key
        return Bound(stage, step, lines, before, found, is_left_out=left_out)

    def _list_unknown(self, step: int) -> set[Position]:
        """Return the lines that make a layer with a weight too many, or of which a bias lacks."""
        taken = self.flow.list_weights(step)
        own = [f"{path.removesuffix('weight')}bias" for path in taken]
        lacks = any(path in self.paths and path not in taken for path in own)
        wrong = [path for path in taken if lacks or path not in self.paths]
        return {at for path in wrong for at in self.flow.made.get(path, ())}

    def _bound_scrambled(
        self, name: str, at: int, before: tuple[Position, ...], found: tuple[str, ...]
    ) -> Bound:
        """Return the bound of a step that lays out right numbers wrongly.

        If it gives the right shape, the sizes that it reads are right.
        """
        joined = [n for n in self.flow.steps[at].sources if self.flow.does[n] is Action.JOIN]
        shapes = self.flow.steps[at].shape, tuple(self.stages[name].values.shape)
        given, right = ([n for n in shape if n != 1] for shape in shapes)
        lines = self.list_lines([at, *joined])
        if given != right:
            lines = self.add_fed([at, *joined])
            lines = self.flow.add_sizes(lines) if self.stages[name].is_projected else lines
        return Bound(name, at, lines, before, found, scrambles=name)

    def _list_exchanged(self, key: str, step: int, edge: set[int]) -> set[int]:
        """Return the steps of what a product takes, if each of it is right, but for something else.

        Queries may be compared with queries; then the names may have been given on earlier lines.
        """
        sources = set(self.flow.steps[step].sources)
        if self.flow.does[step] is Action.KERNEL:
            own = [self.found.get(find_last(self.stages, k)) for k in ROLES]
            given = [self._find_whole(n) for n in self.flow.steps[step].sources[:3]]
            if all(m is not None and n in m.steps for m, n in zip(own, given, strict=False)):
                return set()
            sources = set(given)
        elif self.stages[key].kind not in (Kind.PRODUCT, Kind.SUM):
            return set()
        if not sources <= self.right:
            return set()
        needs = [self.found[k].steps for k in self.stages[key].needs if self.is_met(k)]
        turned = key in self.found and not self.found[key].upright
        if len(needs) > 1 and all(steps & sources for steps in needs) and not turned:
            return set()
        if self.stages[key].kind is Kind.SUM:
            return sources
        found = [(self.stages[k], match.steps) for k, match in self.found.items()]
        starts = (each for stage, each in found if stage.axes == "btd" and stage.kind is Kind.STEP)
        roles = (each for stage, each in found if {*"btw"} <= {*stage.axes})
        compared = edge & frozenset[int]().union(*roles)
        return self.flow.walk_back(compared, frozenset[int]().union(*starts)) & self.right

    def _find_whole(self, number: int) -> int:
        """Return the step of a stage of which a step is a part, or this itself."""
        whole = number
        while whole not in self.right and len(self.flow.steps[whole].sources) == 1:
            [whole] = self.flow.steps[whole].sources
        return whole if whole in self.right else number

    def _find_scrambling(self, between: set[int]) -> tuple[str, int] | None:
        """Return the first step that lays out right numbers wrongly, and what these are."""
        for number in sorted(between - self.right):
            sources, got = self.flow.steps[number].sources, self.flow.values.get(number)
            is_layout = self.flow.does[number] is Action.LAYOUT and len(sources) == 1
            if not is_layout or got is None:
                continue
            for key, match in self.found.items():
                pattern = make_pattern(self.stages[key], self.exact)
                same = got.values.numel() == pattern.values.numel()
                is_whole = match.whole and sources[0] in match.steps
                if is_whole and same and pattern.find_order(got) is None:
                    return key, number
        return None

    def _find_unmerged(self, key: str, step: int) -> tuple[str, int] | None:
        """Return the step that lays heads side by side otherwise than a layer takes them."""
        need, stage = key, self.stages[key]
        while stage.kind is Kind.LAYER and stage.axes == "btd":
            need = stage.needs[0]
            stage = self.stages[need]
        if need == key or stage.axes != "bhtw" or not self.is_met(need):
            return None
        merged = stage.values.transpose(1, 2).flatten(2)
        for number in self.flow.steps[step].sources:
            got = self.flow.values.get(number)
            if number in self.found[need].steps and got and got.shape[-1] == merged.shape[-1]:
                pattern = Pattern(merged, "btd", exact=self.exact)
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
        scaled = (n for n in factors if sources[n] and abs(factors[n] - 1) > UNIT)
        changes = {
            n for n in scaled if all(abs(factors[m] / factors[n] - 1) > UNIT for m in sources[n])
        }
        firsts = {n for n, before in sources.items() if not before}
        last, at, key = max(lasts), self.flow.list_positions(firsts), self._list_scaled()[0]
        between = changes or self._list_unscaled(key, firsts, lasts, set(factors))
        step = max(n for n in factors if n in self.found[key].steps)
        lines = self.add_fed(between)
        return Bound(key, step, lines, at, (key,), factor=factors[last])

    def _list_scaled(self) -> list[str]:
        """Return which scores are found, masked or not, that may have any scale."""
        found = ((k, self.stages[k]) for k in self.found)
        return [k for k, s in found if s.is_of_keys and s.any_scale and not s.scaled_later]

    def _list_factors(self) -> dict[int, float]:
        """Return the factors of all scores, masked or not, on which a wrong result rests."""
        scaled = (self.found[k].factors for k in self._list_scaled())
        found = {n: f for factors in scaled for n, f in factors.items()}
        return {n: f for n, f in found.items() if n in self.slice}

    def _list_unscaled(
        self, key: str, firsts: set[int], lasts: list[int], scored: set[int]
    ) -> set[int]:
        """Return the steps from the product of queries and keys to what takes unscaled scores."""
        met = (self.found[k].steps for k in self.needed[key] if self.is_met(k))
        stops = frozenset[int]().union(*met)
        own = {m for n in firsts for m in self.flow.walk_back([n], stops)}
        after = {m for n in lasts for m in self.flow.uses[n] if m in self.slice}
        return own | scored | after

    def _bound_end(self, missing: str) -> Bound | None:
        """Return the bound if no step follows what is right, or nothing is right."""
        frontier = {self.wrong} & self.right
        if not frontier:
            if self.right & self.slice:
                return None
            return Bound(missing, None, self.add_fed(self.slice), (), ())
        at = self.flow.list_positions(frontier)
        ends = self.flow.list_returns(self.flow.list_all_around(frontier))
        lines = {*at, *ends, *list_between(at, ends)} or set(self.flow.ends)
        last = tuple(k for k, match in self.found.items() if match.steps & set(frontier))
        return Bound(missing, None, lines, at, last, is_left_out=True)

    def _has_other_heads(self, key: str, step: int) -> bool:
        """Whether a step gives scores of one head, and no loop gives those of the others."""
        stage = self.stages[key]
        of_keys = stage.is_of_keys and stage.kind is Kind.PRODUCT
        if not of_keys or self.flow.numels[step] == stage.numel:
            return False
        every = [(each.kind, each.shape, each.cell, each.line) for each in self.flow.steps]
        return every.count(every[step]) == 1

    def _bound_apart(self) -> Bound | None:
        """Return the bound of a second result, if it rests on nothing that gives the first."""
        last, used = self.target, self.slice
        if last not in self.found or self.found[last].steps & used:
            return None
        values = {n: each for n, each in self.flow.values.items() if n in used}
        return replace(self, flow=replace(self.flow, values=values)).bound()

    def _bound_rest(self) -> Bound | None:
        """Return the bound if all stages are found, but something else is returned.

        If that is no number, a stage was found by coincidence: some other tensor equals it.
        """
        last, returned = self.target, self.flow.values.get(self.wrong)
        if last not in self.found:
            return None
        if returned is not None and not bool(returned.values.isfinite().all()):
            return None
        stops = self.found[last].steps
        between = self.flow.walk_back([self.wrong], stops) - stops
        edge = self.flow.find_edge(between, stops)
        at = self.flow.list_positions(edge or stops)
        if edge and not self.right & between:
            return Bound("", None, self.add_fed(between), at, (last,))
        ends = self.flow.list_returns(self.flow.list_all_around(stops))
        lines = {*self.flow.list_positions([self.wrong]), *ends}
        return Bound("", None, lines, at, (last,))


def _list_suspects(flow: Flow, step: int, hidden: Tensor, between: Set[int]) -> set[int]:
    """Return the steps that may be wrong, of those between right scores and a step that hides.

    If the mask is right, what makes it is not wrong; if it is not, and not only inverted, then what
    hides by it is right.
    """
    sources, filled = flow.steps[step].sources, flow.values.get(step)
    mask = flow.values.get(sources[1]) if len(sources) > 1 else None
    fills = flow.does[step] is Action.FILL and flow.numels[step] == hidden.numel()
    if not fills or mask is None:
        return set(between)
    try:
        shown = (mask.values.reshape(mask.shape) != 0).expand(hidden.shape)
    except RuntimeError:  # its axes are in another order
        return set(between)
    if torch.equal(shown, hidden):
        return set(between) - flow.walk_back([mask.number])
    if torch.equal(shown, ~hidden) or filled is None:
        return set(between)
    hides = torch.equal((filled.values < HIDDEN).reshape(shown.shape), shown)
    return set(between) - {step} if hides else set(between)
