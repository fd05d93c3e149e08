"""Bound mistakes in what is left over: right numbers that are not used, and masks that are not."""

from dataclasses import dataclass

from headcheck.grader.grading.places.lines import Bound, LineFinder
from headcheck.grader.grading.places.stages import Kind
from headcheck.grader.grading.tracing.operations import PRODUCTS, Action
from headcheck.grader.grading.tracing.positions import sort_positions


@dataclass(frozen=True, eq=False)
class Unused(LineFinder):
    """Looks for right numbers on which nothing that is returned rests."""

    def bound_unused(self, missing: str) -> Bound | None:
        """Return the bound of a missing stage that is known because something is not used."""
        found = self._bound_discarded(missing) or self._bound_unused()
        stage = self.stages[missing]
        if found is None and stage.is_projected:
            return self._bound_unprojected(missing)
        is_idle = stage.hidden is not None and self.find_idle(missing) is not None
        return found if found is not None or is_idle else self._bound_without(missing)

    def _bound_discarded(self, missing: str) -> Bound | None:
        """Return the bound if something that the missing stage needs is right, but not used."""
        for key in self.stages[missing].needs:
            if self.stages[key].optional or not self._is_result(key):
                continue
            steps = self.found[key].steps if self.is_met(key) else frozenset[int]()
            if steps and not steps & self.slice:
                at = sort_positions(p for n in steps for p in self.flow.list_around(n)[-1:])
                end = self.choose_candidate(missing)
                ends = self.flow.list_returns(self.flow.list_all_around(steps))
                if end is not None:
                    ends = {*self.flow.list_around(end)[-1:]}
                if not self.slice & self.right:
                    ends = {*self.flow.list_positions(self.slice)}
                return Bound(key, max(steps), {*at} | ends, at, (key,), is_unused=True)
        return None

    def _bound_unused(self) -> Bound | None:
        """Return the bound if a stage is right, but nothing that is returned rests on it."""
        for key, match in self.found.items():
            stage = self.stages[key]
            dead = match.steps - self.slice
            if dead != match.steps or stage.optional or self.flow.walk_on(dead) & self.right - dead:
                continue
            used = [k for k in stage.needs if k in self.found and self.found[k].steps & self.slice]
            if not used or self.has_met_successor(key) or not self._is_changed(key):
                continue
            from_used = set().union(*(self.found[k].steps & self.slice for k in used))
            after = {n for each in from_used for n in self.flow.uses[each] if n in self.slice}
            lines = self.add_fed({*dead, *(after - self.right)})
            return Bound(
                key, max(dead), lines, self.flow.list_positions(from_used), (key,), is_unused=True
            )
        return None

    def _is_result(self, key: str) -> bool:
        """Whether a stage rests on scores, and is not of scores or weights itself."""
        needed = (self.stages[k] for k in self.needed[key])
        return not self.stages[key].is_of_keys and any(each.is_of_keys for each in needed)

    def _is_changed(self, key: str) -> bool:
        """Whether a stage is scores or weights, or queries or keys that something has changed."""
        stage = self.stages[key]
        return stage.axes == "bhts" or (bool(stage.role) and stage.kind is Kind.STEP)

    def _bound_without(self, missing: str) -> Bound | None:
        """Return the bound if weights are right but for a stage before the softmax.

        Code may do after the softmax what it should do before it.
        """
        wrong = (k for k in self.found if self.stages[k].lacks == missing)
        if (key := next(wrong, None)) is None:
            return None
        steps, [need] = self.found[key].steps & self.slice, self.stages[key].needs
        after = self.flow.walk_on(steps, through=self.slice - self.products) - steps
        late = {n for n in after if self.flow.does[n] not in PRODUCTS | {Action.LAYOUT}}
        ends = [k for k, stage in self.stages.items() if key in stage.needs]
        for end in (k for k in ends if k in self.found):
            if done := self.found[end].steps & late:
                at = self.flow.list_positions(steps)
                return Bound(end, min(done), self.list_lines(late), at, (key,))
        given = self.found[need].steps if need in self.found else frozenset[int]()
        edge = self.flow.find_edge(self.flow.walk_back(steps, given), given)
        if not steps or not (ends or (edge and late)):
            return None
        lines = self.add_fed(late | steps)
        if ends:
            if any(len(self.flow.steps[n].sources) > 1 for n in after):
                return None
            lines = self.span(edge, max(steps)) | {*self.flow.list_positions(steps)}
            lines |= self.list_feeding_pieces(edge)
        before = self.flow.list_positions(edge)
        return Bound(missing, max(steps), lines, before, (need,), is_left_out=True)

    def _bound_unprojected(self, missing: str) -> Bound | None:
        """Return the bound if the layer of other queries, keys or values is used for a role."""
        own = self.weights.get(missing)
        if own is None or own not in self.paths or self.uses_path(own):
            return None
        used = self._list_repeated_layers()
        if not used:
            return None
        said = f"The layer that should give the {self.stages[missing].name} is not used."
        return Bound(missing, None, {*self.flow.list_positions(used)}, (), (), weights=said)

    def _list_repeated_layers(self) -> set[int]:
        """Return the steps of a layer that is used several times, or of the only one that is used.

        There are none if nothing is compared.
        """
        if not self.is_met("scores") and self.choose_candidate("scores") is None:
            return set()
        own = (k for k, stage in self.stages.items() if stage.is_projected)
        others = {self.weights.get(key) for key in own if self.is_met(key)}
        users: dict[str, set[int]] = {}
        for number in self.slice:
            for path in others & {*self.flow.list_weights(number)}:
                users.setdefault(str(path), set()).add(number)
        several = [steps for steps in users.values() if len(steps) > 1 or len(users) == 1]
        return set().union(*several)
