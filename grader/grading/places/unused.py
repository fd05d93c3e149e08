"""Bound mistakes in what is left over: right numbers that are not used, and masks that are not."""

from dataclasses import dataclass

from headcheck.grader.grading.places.flow import LAYOUTS, PRODUCTS, sort_positions
from headcheck.grader.grading.places.lines import Bound, LineFinder
from headcheck.grader.grading.places.stage_search import SearchReader


@dataclass(frozen=True, eq=False)
class Unused(SearchReader):
    """Looks for right numbers on which nothing that is returned rests."""

    lines: LineFinder

    def bound(self, missing: str) -> Bound | None:
        """Return the bound of a missing stage that is known because something is not used."""
        found = self._bound_discarded(missing) or self._bound_unused()
        if found is None and missing in ("q", "k", "v"):
            return self._bound_unprojected(missing)
        if found is None and missing == "masked" and self.search.find_idle(missing) is None:
            return self._bound_cut() or self._bound_unmasked()
        if found is None and missing == "adjusted":
            return self._bound_unadjusted()
        return found

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
                returns = self.flow.list_returns(self.flow.list_all_around(steps))
                ends = sort_positions(returns if after is None else after)
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
            if not used or self.search.has_met_successor(key) or not self._is_changed(key):
                continue
            from_used = set().union(*(self.search.found[k].steps & self.search.slice for k in used))
            after = {
                n for each in from_used for n in self.flow.uses[each] if n in self.search.slice
            }
            lines = self.lines.add_fed({*dead, *(after - self.search.right)})
            return Bound(
                key, max(dead), lines, self.flow.list_positions(from_used), (key,), is_unused=True
            )
        return None

    def _is_changed(self, key: str) -> bool:
        """Whether a stage is scores or weights, or queries or keys that something has changed."""
        return self.stages[key].axes == "bhts" or key[1:] in ("n", "r")

    def _bound_unmasked(self) -> Bound | None:
        """Return the bound if weights are right but for a mask that was never applied."""
        if "unmasked" not in self.search.found or "cut" in self.search.found:
            return None
        steps = self.search.found["unmasked"].steps & self.search.slice
        after = self.flow.walk_on(steps, through=self._list_between_products()) - steps
        if not steps or any(len(self.flow.steps[n].sources) > 1 for n in after):
            return None
        (key,) = self.stages["unmasked"].needs
        given = self.search.found[key].steps if key in self.search.found else frozenset[int]()
        between = self.flow.walk_back(steps, given)
        edge = {n for each in between for n in self.flow.steps[each].sources if n in given}
        before = self.flow.list_positions(edge)
        lines = self.lines.span(edge, max(steps), self.flow.list_positions(steps))
        lines = self.lines.add_pieces(lines, edge)
        return Bound("masked", max(steps), lines, before, (key,), is_left_out=True)

    def _bound_cut(self) -> Bound | None:
        """Return the bound if the mask sets weights to 0 after the softmax."""
        if "unmasked" not in self.search.found or "cut" not in self.search.found:
            return None
        given = self.search.found["unmasked"].steps & self.search.slice
        cut = self.search.found["cut"].steps & self.search.slice
        after = self.flow.walk_on(given, through=self._list_between_products()) - given
        late = {n for n in after if self.flow.steps[n].kind not in (*LAYOUTS, *PRODUCTS)}
        if not cut & late:
            return None
        before = self.flow.list_positions(given)
        return Bound("cut", min(cut & late), self.lines.list_lines(late), before, ("unmasked",))

    def _bound_unprojected(self, missing: str) -> Bound | None:
        """Return the bound if the layer of other queries, keys or values is used for a role."""
        own = self.search.layers.get(missing)
        if own is None or own not in self.search.paths or self.search.uses_path(own):
            return None
        used = self._list_repeated_layers()
        if not used:
            return None
        said = f"The layer that should give the {self.stages[missing].name} is not used."
        return Bound(missing, None, self.flow.list_positions(used), (), (), weights=said)

    def _list_repeated_layers(self) -> set[int]:
        """Return the steps of a layer that is used several times, or of the only one that is used.

        There are none if nothing is compared.
        """
        if not self.search.is_met("scores") and self.search.choose_candidate("scores") is None:
            return set()
        others = {self.search.layers.get(key) for key in "qkv" if self.search.is_met(key)}
        users: dict[str, set[int]] = {}
        for number in self.search.slice:
            for path in others & {*self.flow.list_weights(number)}:
                users.setdefault(str(path), set()).add(number)
        several = [steps for steps in users.values() if len(steps) > 1 or len(users) == 1]
        return set().union(*several)

    def _bound_unadjusted(self) -> Bound | None:
        """Return the bound if weights rest on scores before something is added to them."""
        if "unadjusted" not in self.search.found or "scores" not in self.search.found:
            return None
        steps = self.search.found["unadjusted"].steps & self.search.slice
        given = self.search.found["scores"].steps
        between = self.flow.walk_back(steps, given)
        edge = {n for each in between for n in self.flow.steps[each].sources if n in given}
        after = self.flow.walk_on(steps, through=self._list_between_products()) - steps
        late = {n for n in after if self.flow.steps[n].kind not in (*LAYOUTS, *PRODUCTS)}
        if not steps or not edge or not late:
            return None
        lines = self.lines.add_fed(late | steps)
        before = self.flow.list_positions(edge)
        return Bound("adjusted", max(steps), lines, before, ("scores",), is_left_out=True)

    def _list_between_products(self) -> set[int]:
        steps = self.flow.steps
        return {n for n in self.search.slice if steps[n].kind not in PRODUCTS}
