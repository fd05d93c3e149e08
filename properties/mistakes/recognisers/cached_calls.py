"""Recognise wrong ways to attend to a sequence in several calls.

A wrong output is recognised by the keys that its queries attend to: the result of each way is
computed by the equation, from the queries, keys and values of the whole sequence. Ways that give
equal results if tokens come one by one differ if tokens come in uneven chunks, so a way is
recognised only if it gives the outputs for all schedules of chunks. Some code goes wrong only in
some calls, such as calls with several tokens. Then each call must give the right result or the
result of this way, and no other way may explain the calls.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.mistakes.catalogue.cached_calls import (
    POSITIONS,
    SHARED,
    VISIBILITIES,
    CachedWay,
    in_some_calls,
    iter_layer_ways,
    list_limits,
)
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake, Recogniser
from headcheck.properties.mistakes.steps.cached_calls import (
    ChunkCall,
    Heads,
    Lengths,
    Places,
    list_calls,
)
from headcheck.reference import (
    Parameters,
    append_beside,
    linear,
    linear_shares,
    masked_softmax,
    merge_heads,
    project,
    project_beside,
    scaled_scores,
    split_shared_heads,
)

UNKNOWN = frozenset({Capability.SINKS, Capability.GATED, Capability.DIFFERENTIAL})
"""capabilities of contracts for which no results of wrong ways are computed"""


@dataclass(frozen=True, eq=False)
class CachedOutputs:
    """The outputs for one sequence that comes in chunks of several lengths."""

    context: CaseContext
    outputs: Mapping[Lengths, Tensor]

    @cached_property
    def heads(self) -> Heads:
        return self._project(self.context.parameters)

    def _project(self, parameters: Parameters) -> Heads:
        x, p = self.context.x, parameters
        query, key, value = split_shared_heads(project(x, p, x, x), self.context.case.heads)
        return *append_beside(query, key, project_beside(x, p, x)), value

    def list_ways(self) -> list[CachedWay]:
        """Return the wrong ways to attend that are possible in this case, without limits."""
        context = self.context
        turned = get_variant(context.contract, context.case).rotary
        own = POSITIONS if turned else ()
        bare = self._project(replace(context.parameters, b_q=None, b_k=None, b_v=None))
        return [*VISIBILITIES, *own, *SHARED, *iter_layer_ways(context.case.head_dim, bare)]

    def attend_in_calls(self, way: CachedWay, lengths: Lengths) -> Tensor:
        """Return the output for chunks of these lengths if calls attend in this way."""
        return torch.cat([self._attend(way, call) for call in list_calls(lengths)], dim=1)

    @cached_property
    def explanations(self) -> list[tuple[CachedWay, list[bool]]]:
        """The ways that explain all wrong calls, each with the calls that go this way."""
        if self.context.contract.capabilities & UNKNOWN:
            return []
        ways = [*self.list_ways(), *self._iter_limits()]
        fits = [(way, self._list_fits(way)) for way in ways]
        return [(way, found) for way, found in fits if found is not None]

    def _list_calls(self) -> list[tuple[ChunkCall, Tensor]]:
        """Return all calls, each with the output of the whole sequence to which it belongs."""
        return [
            (call, output)
            for lengths, output in self.outputs.items()
            for call in list_calls(lengths)
        ]

    def _list_fits(self, way: CachedWay) -> list[bool] | None:
        """Return for each call whether it goes this way; None if some other call is not right."""
        fits = []
        for call, output in self._list_calls():
            fits.append(self._is_near(call, output, self._attend(way, call)))
            if not fits[-1] and not self._is_right(call, output):
                return None
        return fits

    def _iter_limits(self) -> Iterator[CachedWay]:
        """Yield the limits on kept or seen tokens that give the first wrong output."""
        calls = self._list_calls()
        call, output = next(each for each in calls if not self._is_right(*each))
        expected, tolerance = self.context.expected.outputs[0], self.context.tolerance.float32
        near = (output - expected).abs() <= tolerance
        first = call.begin + (~near)[:, call.begin : call.end].any(-1).any(0).nonzero()[0]
        for way in (way for number in range(1, call.end) for way in list_limits(number)):
            if _gives(self._attend(way, call, first), output[:, first], tolerance[:, first]):
                yield way

    def _attend(self, way: CachedWay, call: ChunkCall, own: Places | None = None) -> Tensor:
        """Return the output of one call, or of some of its tokens."""
        contract, case, p = self.context.contract, self.context.case, self.context.parameters
        variant, places = get_variant(contract, case), torch.arange(call.end)
        own = places[call.begin :] if own is None else own
        query, key, value = self.heads
        given = query[..., own, :], key[..., : call.end, :], value[..., : call.end, :]
        query, key, value = way.change(call, given)
        at_query, at_key = (
            replace(variant, positions=tuple(stand.tolist()))
            for stand in way.stands(call, own, places)
        )
        query, key = (variant.find_features(t) for t in (at_query.place(query), at_key.place(key)))
        scores = scaled_scores(query, key, get_scale(contract, case))
        visible = way.sees(call, own[:, None], places)
        if contract.has(Capability.WINDOW):
            visible = visible & (own[:, None] - places < case.window)
        shares = functools.partial(linear_shares, epsilon=variant.feature_epsilon)
        share = shares if variant.features else masked_softmax
        weights = share(variant.adjust(scores), visible.expand(len(own), len(places)))
        context_vectors = merge_heads(weights @ value)
        return context_vectors if p.W_o is None else linear(context_vectors, p.W_o, p.b_o)

    def _is_near(self, call: ChunkCall, output: Tensor, part: Tensor) -> bool:
        rows = slice(call.begin, call.end)
        return _gives(part, output[:, rows], self.context.tolerance.float32[:, rows])

    def _is_right(self, call: ChunkCall, output: Tensor) -> bool:
        right = self.context.expected.outputs[0][:, call.begin : call.end]
        return self._is_near(call, output, right)


def _gives(part: Tensor, row: Tensor, tolerance: Tensor) -> bool:
    return bool(((part - row).abs() <= tolerance).all())


def recognise_in_all_calls(evidence: CachedOutputs) -> tuple[DiagnosedMistake, ...]:
    """Name the first mistake whose way all calls with a cache go."""
    for way, fits in evidence.explanations:
        if all(fits):
            tried = len(fits)
            return (DiagnosedMistake(way.mistake, tried, tried, words=way.words, hint=way.hint),)
    return ()


def recognise_in_some_calls(evidence: CachedOutputs) -> tuple[DiagnosedMistake, ...]:
    """Name the only mistake whose way some calls go, if all other calls are right."""
    if len(evidence.explanations) != 1:
        return ()
    [(way, fits)] = evidence.explanations
    words = f"{way.words}, in some of the calls"
    mistake = in_some_calls(way.mistake)
    return (DiagnosedMistake(mistake, sum(fits), len(fits), words=words, hint=way.hint),)


RECOGNISERS: tuple[Recogniser[CachedOutputs], ...] = (
    recognise_in_all_calls,
    recognise_in_some_calls,
)
"""recognisers of outputs with a cache: a way of all calls comes before a way of only some"""
