"""The ways to construct and call a class that return an answer, and the work that this takes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from headcheck.properties.binding.building import (
    MAX_FIELDS,
    Built,
    construct,
    extend_config,
    has_config,
    note_failure,
)
from headcheck.properties.binding.calls import hides_its_mask, iter_axes, iter_forms_of
from headcheck.properties.binding.hypotheses import Sizes, iter_sizes
from headcheck.properties.binding.probe import CallProbe, probe_call
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.subject import CallOptions, Subject
from headcheck.properties.terms.call_form import CallForm, TokenAxes
from headcheck.properties.violations.violation import SubmissionFailed

MAX_STEPS = 7000
"""the amount of work after which a search gives up, which takes about three seconds. The unit is
one comparison of an output with one contract, so that every machine gives up at the same point"""
EXACT = 2 / 3
"""the share of this work for exact matches, and not for known mistakes"""
CALL_STEPS = 4
"""the least work of one call of the class; one of many layers takes as many as it has tensors"""
MAX_NUMEL = 1 << 23
"""the most parameters to overwrite: four layers of width 1,448"""


ABSENT = "ModuleNotFoundError: "
"""the beginning of an error of a class that needs a module which is not there"""


@dataclass(eq=False)
class Ways:
    """A class that is constructed and called in several ways, and what came of this."""

    subject: Subject
    signature: Signature
    steps: int = 0
    """the work done so far"""
    alone: bool = False
    """whether it is called for single sequences only, though it may accept several"""
    failures: list[str] = field(default_factory=list)
    """the errors of failed constructions and calls"""
    paths: set[str] = field(default_factory=set)
    """the paths of its weights, in all ways in which it was constructed"""
    probes: list[CallProbe] = field(default_factory=list)
    """the ways to construct and call the class that returned an answer"""
    idle: str = ""
    """how a call shows that the class is not written yet, so that the search gives up; or """ ""

    @property
    def lacks_import(self) -> bool:
        """Whether a way failed because a module that the class imports is not there."""
        return any(text.startswith(ABSENT) for text in self.failures)

    def is_early(self, _: object = None) -> bool:
        """Whether the search has not given up yet."""
        return not self.idle and self.steps < MAX_STEPS

    def may_be_exact(self, _: object = None) -> bool:
        return not self.idle and self.steps < MAX_STEPS * EXACT

    def iter_probes(self, built: Built) -> Iterator[CallProbe]:
        """Yield the results of a constructed class, called in one form after another."""
        self.paths |= {path for path, info in built.tensors.items() if info.kind != "buffer"}
        if self.is_too_large(built):
            return
        built = self._complete_for_calls(built)
        answered: set[tuple[object, ...]] = set()
        known = len(self.probes)
        for sizes, form in self._iter_ways(built):
            if len(self.probes) > known and hides_its_mask(form, self.signature.call):
                continue  # it takes masks, and these are judged
            for batched in (False,) if self.alone else (True, False):
                given = tuple((form.given or {}).items())
                if (form.inputs, form.mask.required, given) in answered or not self.is_early():
                    continue
                probe = self._try_call(built, sizes, form, batched=batched)
                if probe is not None:
                    if not form.mask.required:
                        answered.add((form.inputs, False, given))
                    yield probe

    def is_too_large(self, built: Built) -> bool:
        """Whether a module has too many parameters to overwrite them."""
        numbers = (math.prod(t.shape) for t in built.tensors.values() if t.kind != "buffer")
        if (count := sum(numbers)) <= MAX_NUMEL:
            return False
        self.failures.append(f"it has {count:,} parameters: too many to be recognised")
        return True

    def _iter_ways(self, built: Built) -> Iterator[tuple[Sizes, CallForm]]:
        """Yield sizes that differ in the width of tokens, each with the forms of a call."""
        by_width = {sizes.case.d_in: sizes for sizes in reversed(list(self.iter_sizes_of(built)))}
        forms = list(iter_forms_of(self.signature))
        for sizes in by_width.values():
            plain = any(each.form.axes is TokenAxes.BATCH_FIRST for each in self.probes)
            failures = () if plain else self.failures
            windowed = built.constructor.is_windowed
            shapes = built.shapes.values()
            for form in iter_axes(forms, shapes, failures, windowed=windowed):
                yield sizes, form

    def _complete_for_calls(self, built: Built) -> Built:
        """Return the construction with a config that also has the fields that calls read."""
        for _ in range(MAX_FIELDS):
            sizes = next(self.iter_sizes_of(built), None)
            form = next(iter_forms_of(self.signature))
            if sizes is None or self._answers(built, sizes, form):
                return built
            more = extend_config(built, self.failures[-1]) if self.failures else None
            if more is None:
                return built
            built = more
        return built

    def _answers(self, built: Built, sizes: Sizes, form: CallForm) -> bool:
        """Whether calls succeed, also in training, where the module may read more config fields."""
        probe = self._try_call(built, sizes, form, batched=True)
        if probe is None or not has_config(built):
            return probe is not None
        try:
            probe.module.forward([probe.seen.x], CallOptions(training=True, seed=1))
        except SubmissionFailed as failure:
            note_failure(failure, self.failures)
            return False
        return True

    def iter_sizes_of(self, built: Built) -> Iterator[Sizes]:
        """Yield sizes that shapes allow, first sizes whose number of heads equals an argument."""
        every = iter_sizes(built.constructor, built.case, built.tensors)
        said = {p.default for p in (*self.signature.constructor, *self.signature.variables)}
        yield from sorted(every, key=lambda sizes: sizes.case.heads not in said)

    def _try_call(
        self, built: Built, sizes: Sizes, form: CallForm, *, batched: bool
    ) -> CallProbe | None:
        self.steps += max(CALL_STEPS, len(built.tensors))
        if built.constructor.axes.are_cut and not batched:
            return None  # heads would pass for a batch
        try:
            own = replace(form, places=())
            make = partial(construct, self.subject, self.signature.name, built, own)
            probe = probe_call(make, built, sizes, form, batched=batched)
        except SubmissionFailed as failure:
            note_failure(failure, self.failures)
            return None
        if self.signature.entry is Entry.CLASS and not self.probes:
            self.idle = self.idle or _find_idleness(probe)
        return None if self.idle else probe


def _find_idleness(probe: CallProbe | None) -> str:
    """Say how a call shows that a class is not written yet; "" if it does not."""
    if probe is None:
        return "its calls return nothing that it has computed"
    return "its calls return the same whatever its weights are" if probe.ignores("") else ""
