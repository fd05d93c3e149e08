"""One call of a constructed module with random weights: the results, and their causality."""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from torch import Tensor

from headcheck.properties.binding.building import Built
from headcheck.properties.binding.hypotheses import Sizes, iter_readings
from headcheck.properties.binding.matching import Observation, draw_weights, measure_error
from headcheck.properties.binding.row_gradients import RowGradients, compute_row_gradients
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.contracts.contract import Contract, FeatureMap
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.contracts.parameter_mapping import HeadSizes, ParameterMapping
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.parts.features import FEATURE_EPSILONS
from headcheck.properties.parts.norms import EPSILONS, LENGTH_ALONE, Norm
from headcheck.properties.subject import CallOptions, Module
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.violations.violation import Status, SubmissionFailed

STEADY = ""
"""stands, among tensors with an effect, for none: whether calls that are alike return the same"""
TINY = 1e-4
"""the factor of tokens whose squares are near the small numbers that norms add"""
TELLING = (1e-5, LENGTH_ALONE)
"""the numbers that differ enough from the usual one to hide a mistake in one call"""


@dataclass(frozen=True, eq=False)
class CallProbe:
    """A constructed module with random weights, and what it returned in one form of a call."""

    built: Built
    sizes: Sizes
    form: CallForm
    module: Module
    seen: Observation
    batched: bool
    blind: bool
    """whether all outputs are independent of later tokens"""
    overwrites: bool = False
    """whether the call has written over its input"""
    effects: dict[str, bool] = field(default_factory=dict)
    """the tensors of which it is known whether they change a result"""
    fruitless: set[object] = field(default_factory=set)
    """the kinds of layouts, with tensors and sizes, of which it is known that there is none"""

    def observe_tiny(self) -> Observation | None:
        """Call the module for tokens so small that any number beside them shows; None if it raises.

        Raises SubmissionFailed if its process ends.
        """
        return self.observe(self.seen.x * TINY)

    def observe(self, x: Tensor, seed: int | None = None) -> Observation | None:
        """Call the module for other tokens, or with other random numbers; None if it raises.

        Raises SubmissionFailed if its process ends.
        """
        return self._observe(x, self.seen.stored, seed)

    def observe_other(self, module: Module) -> Observation | None:
        """Call a module with the same weights for other tokens; None if it raises.

        Raises SubmissionFailed if its process ends.
        """
        return replace(self, module=module)._observe(self.seen.x.flip(-1), self.seen.stored)

    @functools.cached_property
    def row_gradients(self) -> RowGradients | None:
        """What gradients tell of the roles of rows. Raises SubmissionFailed if the process ends."""
        given = self.module, self.seen.x, self.seen.outputs, self.seen.stored
        return compute_row_gradients(*given, batched=self.batched)

    def allows(self, mapping: ParameterMapping, sizes: HeadSizes) -> bool:
        """Whether gradients allow that a tensor holds these projections."""
        return self.row_gradients is None or self.row_gradients.allow(mapping, sizes)

    @functools.cached_property
    def tells_places(self) -> bool:
        """Whether the order of the other tokens changes a result at the last one.

        The tokens may lie along either axis. Raises SubmissionFailed if its process ends.
        """
        return self._tells_order(0) or self._tells_order(1)

    def _tells_order(self, axis: int) -> bool:
        x, last = self.seen.x, self.seen.x.shape[axis] - 1
        order = torch.tensor([*reversed(range(last)), last])
        again = self.observe(x.index_select(axis, order))
        pairs = zip(self.seen.outputs, () if again is None else again.outputs, strict=False)
        return again is None or any(
            one.dim() == 3
            and one.shape == other.shape
            and one.shape[axis] > last
            and not torch.allclose(one.select(axis, last), other.select(axis, last))
            for one, other in pairs
        )

    def repeats(self, other: "CallProbe") -> bool:
        """Whether another call of the same module returned the same, so that nothing is learned."""
        return (
            self.built is other.built
            and (self.sizes, self.form.axes) == (other.sizes, other.form.axes)
            and (self.batched, self.blind) == (other.batched, other.blind)
            and len(self.seen.outputs) == len(other.seen.outputs)
            and all(map(torch.equal, self.seen.outputs, other.seen.outputs))
        )

    def has_effect(self, path: str) -> bool:
        """Whether a tensor changes a result by more than an explanation may be off.

        False if calls that are alike differ. Raises SubmissionFailed if its process ends.
        """
        stored = self.seen.stored
        if STEADY not in self.effects:
            self.effects[STEADY] = self._returns_the_same(stored)
        if path not in self.effects:
            other = {**stored, path: _change(stored[path])} if path in stored else stored
            self.effects[path] = self.effects[STEADY] and not self._returns_the_same(other)
        return self.effects[path]

    def _returns_the_same(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether a call with these weights returns the same results, or raises."""
        again = self._observe(self.seen.x, weights)
        return again is None or again.is_like(self.seen)

    def leave_out(self, paths: Collection[str]) -> "CallProbe":
        """Return the probe as if the module did not have some tensors."""
        left = {path: info for path, info in self.built.tensors.items() if path not in paths}
        return replace(self, built=replace(self.built, tensors=left))

    def ignores(self, prefix: str) -> bool:
        """Whether weights whose paths begin like this exist, and change no result.

        Raises SubmissionFailed if its process ends.
        """
        stored = self.seen.stored
        begun = {path: t for path, t in stored.items() if path.startswith(prefix)}
        other = {path: 2 * t for path, t in begun.items() if t.is_floating_point()}
        again = self._observe(self.seen.x, {**stored, **other}) if other else None
        return again is not None and all(map(torch.equal, again.outputs, self.seen.outputs))

    def _observe(
        self, x: Tensor, weights: Mapping[str, Tensor], seed: int | None = None
    ) -> Observation | None:
        given = x if self.batched else x[0]
        try:
            self.module.write(weights)
            outputs = self.module.forward([given.clone()], CallOptions(seed=seed)).outputs
        except SubmissionFailed as failure:
            if failure.status is not Status.CRASHED:
                raise
            return None
        return Observation(x, weights, _add_batch(outputs, batched=self.batched))


def _change(tensor: Tensor) -> Tensor:
    """Return a tensor of the same kind in which every number differs, unless it is zero."""
    return ~tensor if tensor.dtype == torch.bool else -2 * tensor


def probe_call(
    make: Callable[[], Module], built: Built, sizes: Sizes, form: CallForm, *, batched: bool
) -> CallProbe | None:
    """Call a module with random weights; None if it returns no tensor, or only its input.

    A module that returns its input is no attention if it has no weights. Raises SubmissionFailed.
    """
    case, module = sizes.case, make()
    x = draw_normal(case, "x", case.batch if batched else 1, case.tokens, case.d_in)
    weights = draw_weights(built.tensors, case.seed)
    module.write(weights)
    result = module.forward([x.clone() if batched else x[0].clone()], CallOptions())
    outputs = _add_batch(result.outputs, batched=batched)
    [after] = _add_batch(result.inputs_after[:1], batched=batched) or (x,)
    overwrites = not torch.equal(after, x)
    apart = min(3, sum(role != "mask" for role in form.inputs))
    if overwrites and apart > 1:  # with one tensor in several roles, all of them are overwritten
        copies = [x.clone() if batched else x[0].clone() for _ in range(apart)]
        result = module.forward(copies, CallOptions(apart=apart))
        outputs = _add_batch(result.outputs, batched=batched)
    changed = x.clone()
    changed[:, -1] += 1

    def hides_last(called: Module) -> bool:
        again = called.forward([changed.clone() if batched else changed[0].clone()], CallOptions())
        return is_blind(outputs, _add_batch(again.outputs, batched=batched))

    try:
        blind = hides_last(module)
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        blind = False
    if not blind:  # an earlier call may be what changes a later one
        fresh = make()
        fresh.write(weights)
        blind = hides_last(fresh)
    returned = any(t.shape == x.shape and torch.equal(t, x) for t in outputs)
    if not outputs or (returned and not built.tensors):
        return None
    seen = Observation(x, weights, outputs)
    return CallProbe(built, sizes, form, module, seen, batched, blind, overwrites)


def _add_batch(tensors: Sequence[Tensor], *, batched: bool) -> tuple[Tensor, ...]:
    """Return tensors with a batch axis."""
    return tuple(t if batched else t.unsqueeze(0) for t in tensors)


def is_blind(outputs: Sequence[Tensor], changed: Sequence[Tensor]) -> bool:
    """Whether the last token changes nothing at earlier tokens."""
    pairs = [(a, b) for a, b in zip(outputs, changed, strict=False) if a.dim() == 3]
    return bool(pairs) and all(
        a.shape == b.shape and torch.allclose(a[:, :-1], b[:, :-1]) for a, b in pairs
    )


def rank_by_explained(found: tuple[Contract, Sizes]) -> int:
    """Return a sort key: contracts that explain more of a module's parameters come first."""
    return -len(found[0].mappings)


def take_turns(found: Sequence[tuple[Contract, Sizes]]) -> list[tuple[Contract, Sizes]]:
    """Return first the likeliest contract of each number of heads, then the second of each."""
    before = Counter[int]()
    ranks = []
    for _, sizes in found:
        ranks.append(before[sizes.case.heads])
        before[sizes.case.heads] += 1
    order = sorted(range(len(found)), key=ranks.__getitem__)
    return [found[number] for number in order]


def iter_readings_of(probe: CallProbe, causal: Sequence[bool]) -> Iterator[tuple[CallForm, bool]]:
    """Yield the call form, and the form with tokens first, each with and without a causal mask."""
    usual, *others = iter_readings(probe.form)
    yield from ((usual, hides) for hides in causal)
    yield from itertools.product(others, (False, True))


def refine(
    contract: Contract,
    sizes: Sizes,
    probe: CallProbe,
    place: int,
    overrides: StepOverrides = MappingProxyType({}),
) -> Contract:
    """Return the contract with the norm's small number that explains the output best.

    Tokens are made tiny for this: otherwise the smallest numbers show no effect in float64.
    """
    if contract.feature_map is not FeatureMap.NONE:
        sums = (replace(contract, feature_epsilon=each) for each in FEATURE_EPSILONS)
        exact = min(sums, key=lambda c: measure_error(c, sizes.case, probe.seen, place, overrides))
        return restate_steps(exact)
    if contract.norm is Norm.NONE:
        return contract
    every = (replace(contract, norm_epsilon=epsilon) for epsilon in EPSILONS)
    seen = probe.observe_tiny() or probe.seen
    return min(every, key=lambda c: measure_error(c, sizes.case, seen, place, overrides))


def iter_epsilons(contract: Contract) -> Iterator[Contract]:
    """Yield the contract with the small numbers of norms beside which a mistake can be told."""
    yield contract
    if contract.norm is not Norm.NONE:
        yield from (replace(contract, norm_epsilon=each) for each in TELLING)
