"""Search for the binding of a class: the contract under which its behaviour is attention."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headcheck.properties.binding.building import ConstructorSource, build_all
from headcheck.properties.binding.calls import names_roles
from headcheck.properties.binding.constructors import (
    iter_assigned,
    iter_of_one_length,
    iter_suggested,
)
from headcheck.properties.binding.extras import iter_meanings
from headcheck.properties.binding.hypotheses import (
    FULL,
    PROBE,
    WIDE,
    Sizes,
    iter_placements,
    iter_scaled_placements,
    iter_usual_placements,
    make_contract,
)
from headcheck.properties.binding.intent import expects_causality
from headcheck.properties.binding.layouts import (
    Allows,
    LayoutSource,
    is_allowed,
    iter_layouts,
    iter_mappings,
    iter_named_layouts,
)
from headcheck.properties.binding.matching import (
    TELLING,
    find_exact,
    find_mistakes,
    find_scale,
    starts_right,
)
from headcheck.properties.binding.probe import (
    CallProbe,
    iter_epsilons,
    iter_readings_of,
    rank_by_explained,
    refine,
    take_turns,
)
from headcheck.properties.binding.ways import Ways
from headcheck.properties.contracts.contract import Contract, Entry
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.mistakes.catalogue import SCALE, Mistake
from headcheck.properties.mistakes.mistake_table import Mistakes
from headcheck.properties.parts.part import Found
from headcheck.properties.terms.call_form import TokenAxes
from headcheck.properties.terms.case import Case

MISTAKE_STEPS, PAIR_STEPS = 60, 400
"""the work of trying all mistakes, and of trying all pairs of them"""
OWN_BATCH = re.compile(r"shape '\[(\d+), ")
"""in the error of a view whose number of sequences may be fixed"""
MAX_OWN_BATCH = 128
UNREAD = 6
"""how many contracts are tried before gradients are asked which rows are queries, keys or values"""
MAX_LIKELY = 200
"""the most contracts that names suggest: those of six numbers of heads, for a fused layer"""
MAX_PLACED = 40
"""the most contracts for which all kinds of positions are tried"""
MAX_SCALED = 4
"""the most contracts for which scaled positions are tried"""
MAX_MISTAKEN = 6
"""the most contracts for which mistakes are tried; those that names suggest come first"""


@dataclass(frozen=True, slots=True)
class Match:
    """A contract that explains the output of a class: exactly, with mistakes, or by its names."""

    contract: Contract
    sizes: Sizes
    place: int = 0
    """the place of the output among the results"""
    mistakes: Mistakes = ()
    guessed: bool = False
    """whether quantities were guessed because the names of arguments do not state them"""
    inexact: bool = False
    """whether the class is explained only with another scale, or only by its names"""
    remark: str = ""
    """what was found that neither the contract nor the mistakes say"""


SCALES = frozenset(mistake.name for mistake in SCALE)
"""mistakes in the scale of the scores"""
Attempt = Callable[[CallProbe], Match | None]


@dataclass(eq=False)
class BindingSearch(Ways):
    """A search for the binding of a class, with what its calls have shown so far."""

    inner: list["BindingSearch"] = field(default_factory=list)
    """the searches for its binding without norms of tokens that found nothing"""

    def iter_matches(self) -> Iterator[Match]:
        """Yield contracts that explain the class, first those that names suggest, then all others.

        Raises SubmissionFailed if its process ends.
        """
        named = next(self._iter_named(), None)
        if named is not None:
            yield named
        if named is not None or not self.probes:
            for match in self._iter_among(iter_assigned, self._attempts):
                yield replace(match, guessed=True)

    def _iter_named(self) -> Iterator[Match]:
        yield from self._iter_among(iter_suggested, self._attempts)
        yield from self._iter_among(iter_suggested, self._attempts, WIDE)
        if not self.probes:
            yield from self._iter_among(iter_of_one_length, self._attempts, FULL)
        if not self.probes:
            for batch in self._list_own_batches():
                yield from self._iter_among(iter_suggested, (), replace(PROBE, batch=batch))

    def _list_own_batches(self) -> list[int]:
        """Return the numbers of sequences that may be fixed in the code, as its errors say."""
        found = (OWN_BATCH.search(text) for text in self.failures)
        batches = dict.fromkeys(int(each[1]) for each in found if each is not None)
        return [batch for batch in batches if PROBE.batch < batch <= MAX_OWN_BATCH][:1]

    @property
    def _attempts(self) -> tuple[Attempt, ...]:
        """The explanations to try for a class that is not plain attention, simplest first."""
        attempts: tuple[Attempt, ...] = (
            self.match_with_one_mistake,
            self._match_with_scale,
            self._match_with_mistaken_positions,
            self._match_with_two,
        )
        return attempts if self._may_be_mistaken else ()

    def _iter_among(
        self, source: ConstructorSource, attempts: Sequence[Attempt], base: Case = PROBE
    ) -> Iterator[Match]:
        """Yield explanations of a class that is constructed in these ways, exact ones first."""
        probes: list[CallProbe] = []
        all_built = build_all(self.subject, self.signature, self.failures, source, base)
        for built in itertools.takewhile(self.is_early, all_built):
            for probe in self.iter_probes(built):
                if any(map(probe.repeats, probes)):
                    continue
                self.probes.append(probe)
                match = self._find_exact(probe, self._iter_placed(probe))
                if match is None:
                    probes.append(probe)
                else:
                    yield self._find_other_scale(probe, probes, attempts) or match
        for probe in itertools.takewhile(self.may_be_exact, probes):
            every = self._iter_contracts(probe, iter_layouts, (probe.blind,), probe.allows)
            match = self._find_exact(probe, every)
            if match is not None:
                yield self._find_other_scale(probe, probes, attempts) or match
        if attempts and any(probe.tells_places for probe in probes):
            if base == PROBE:  # only wide heads show a rotated share of them
                yield from self._iter_among(source, (), WIDE)
            attempts = (self._match_with_mistaken_positions, *attempts)
        tried = itertools.product(dict.fromkeys(attempts), probes)
        matches = (attempt(probe) for attempt, probe in itertools.takewhile(self.is_early, tried))
        yield from (match for match in matches if match is not None)

    def _find_other_scale(
        self, found: CallProbe, earlier: Sequence[CallProbe], attempts: Sequence[Attempt]
    ) -> Match | None:
        """Return a match with another width's scale, which is right only if all widths are equal.

        Otherwise a class for tokens of any width would be judged only at the width that hides this.
        """
        if not found.built.constructor.square or not attempts:
            return None
        free = (probe for probe in earlier if not probe.built.constructor.square)
        for match in map(self.match_with_one_mistake, free):
            if match is not None and {m.name for m in match.mistakes} <= SCALES:
                return match
        return None

    @property
    def _may_be_mistaken(self) -> bool:
        """Whether the class may be wrong attention; a function's tensors could be anything."""
        return self.signature.entry is Entry.CLASS or names_roles(self.signature.call)

    @property
    def _telling(self) -> Sequence[Mistake]:
        """The mistakes to try; the caller of a function may give it features."""
        if self.signature.entry is Entry.CLASS:
            return TELLING
        return tuple(each for each in TELLING if each.name != "no_features")

    def _find_exact(
        self, probe: CallProbe, contracts: Iterable[tuple[Contract, Sizes]]
    ) -> Match | None:
        for tried, (contract, sizes) in enumerate(contracts if probe.seen.may_be_exact else ()):
            self.steps += 1
            read = probe.row_gradients if tried >= UNREAD else None
            allowed = read is None or read.allow_all(contract, sizes.case)
            place = find_exact(contract, sizes.case, probe.seen) if allowed else None
            if place is not None:
                return Match(refine(contract, sizes, probe, place), sizes, place)
            if not self.may_be_exact():
                return None
        return None

    def _iter_placed(self, probe: CallProbe) -> Iterator[tuple[Contract, Sizes]]:
        """Yield contracts that names suggest: without positions, with usual and scaled positions.

        Scaled positions come last: a class that has others costs nothing more.
        """
        likely = list(itertools.islice(self.iter_likely(probe), MAX_LIKELY))
        yield from likely
        if not probe.tells_places:
            return  # with random weights, positions of any kind show
        starting = [
            each
            for each in take_turns(likely)[:MAX_PLACED]
            if not probe.blind or starts_right(each[0], each[1].case, probe.seen)
        ]
        for contract, sizes in starting:
            yield from ((placed, sizes) for placed in iter_placements(contract, sizes.case))
        for contract, sizes in starting[:MAX_SCALED]:
            yield from ((placed, sizes) for placed in iter_scaled_placements(contract, sizes.case))

    def match_with_one_mistake(self, probe: CallProbe) -> Match | None:
        return self._match_with_mistakes(probe, pairs=False)

    def _match_with_two(self, probe: CallProbe) -> Match | None:
        return self._match_with_mistakes(probe, pairs=True)

    def _match_with_scale(self, probe: CallProbe) -> Match | None:
        """Return the contract that explains a call if only the factor of the scores differs."""
        for contract, sizes in itertools.islice(self.iter_likely(probe), 2):
            found = find_scale(contract, sizes.case, probe.seen)
            if found is not None:
                return Match(contract, sizes, found[1], inexact=True)
        return None

    def iter_likely(
        self, probe: CallProbe, *, hides: bool | None = None
    ) -> Iterator[tuple[Contract, Sizes]]:
        """Yield the contracts that names suggest, with the mask that was observed or requested."""
        layouts = iter_named_layouts if self._has_named(probe) else iter_layouts
        return self._iter_contracts(probe, layouts, (probe.blind if hides is None else hides,))

    def _match_with_mistakes(self, probe: CallProbe, *, pairs: bool) -> Match | None:
        for hides in self._list_visibility(probe):
            every = itertools.islice(self.iter_likely(probe, hides=hides), MAX_LIKELY)
            plain = [c for c in every if c[0].call_form.axes is not TokenAxes.TOKENS_FIRST]
            likely = sorted(take_turns(plain)[:MAX_MISTAKEN], key=rank_by_explained)
            for contract, sizes in likely[: 1 if pairs else None]:
                for each in iter_epsilons(contract):
                    self.steps += PAIR_STEPS if pairs else MISTAKE_STEPS
                    found = find_mistakes(
                        each, sizes.case, probe.seen, pairs=pairs, among=self._telling
                    )
                    for (mistakes, overrides), place in found:
                        refined = refine(each, sizes, probe, place, overrides)
                        return Match(refined, sizes, place, mistakes)
                    if not self.is_early():
                        return None
        return None

    def _match_with_mistaken_positions(self, probe: CallProbe) -> Match | None:
        """Return a contract with usual positions and one mistake."""
        for hides in self._list_visibility(probe):
            likely = itertools.islice(self.iter_likely(probe, hides=hides), MAX_MISTAKEN)
            for contract, sizes in sorted(likely, key=rank_by_explained)[:1]:
                placements = iter_usual_placements(contract, sizes.case)
                for placed in itertools.chain.from_iterable(map(iter_epsilons, placements)):
                    self.steps += MISTAKE_STEPS
                    found = find_mistakes(placed, sizes.case, probe.seen, among=self._telling)
                    for (mistakes, _), place in found:
                        return Match(placed, sizes, place, mistakes)
                    if not self.is_early():
                        return None
        return None

    def _list_visibility(self, probe: CallProbe) -> tuple[bool, ...]:
        """Return the possible answers to whether later tokens should be hidden, likeliest first."""
        if probe.blind:
            return (True,)
        asked = expects_causality(self.signature, probe.module, probe.built.tensors)
        return (True, False) if asked else (False, True)

    def _has_named(self, probe: CallProbe) -> bool:
        return any(
            next(iter_named_layouts(probe.built.tensors, sizes.case), None)
            for sizes in self.iter_sizes_of(probe.built)
        )

    def _iter_contracts(
        self,
        probe: CallProbe,
        layouts: LayoutSource,
        causal: Sequence[bool],
        allows: Allows = is_allowed,
    ) -> Iterator[tuple[Contract, Sizes]]:
        """Yield the contracts that the shapes of a module allow, the likely ones first."""
        for sizes in self.iter_sizes_of(probe.built):
            fruitless = layouts, allows, probe.built, sizes.case
            if sizes.case.d_in != probe.seen.x.shape[-1] or fruitless in probe.fruitless:
                continue
            mappings: tuple[ParameterMapping, ...] | None = None
            own = layouts, probe.built.tensors, sizes.case, probe.has_effect, allows
            for mappings in iter_mappings(*own):
                for form, hides in iter_readings_of(probe, causal):
                    if form.axes is TokenAxes.TOKENS_FIRST and self.signature.batch_first:
                        continue
                    contract = make_contract(
                        self.signature.name,
                        probe.built.constructor,
                        form,
                        mappings,
                        sizes,
                        causal=hides,
                        batched=probe.batched,
                    )
                    is_named = layouts is iter_named_layouts
                    found = Found(probe.built.shapes, sizes.case, is_named)
                    yield from ((each, sizes) for each in iter_meanings(contract, found))
            if mappings is None:
                probe.fruitless.add(fruitless)
