"""Bind a class by what it does with its tensors, if nothing explains what it returns.

One call is traced. The class is read as the attention whose queries, keys and values appear in the
trace, if every other operation and every weight has a role in this attention. So code that is wrong
further on, in a way that no known mistake describes, is still judged. A class that does anything
else with its tensors may be another kind of attention, and is not judged.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from headcheck.grader.grading.places.locate import INEXACT
from headcheck.grader.grading.places.matching import EXACT, find_stage
from headcheck.grader.grading.places.stages import OracleStage, list_stages
from headcheck.grader.grading.tracing.calls import trace_probe
from headcheck.grader.grading.tracing.graph import GIVEN, Flow, walk
from headcheck.grader.grading.tracing.operations import (
    NEUTRAL,
    NORMING,
    PRODUCTS,
    SOFTMAXES,
    Action,
)
from headcheck.properties.binding.by_name import covers
from headcheck.properties.binding.calls import names_roles
from headcheck.properties.binding.hypotheses import Sizes, iter_usual_placements
from headcheck.properties.binding.intent import expects_causality, is_triangle
from headcheck.properties.binding.matching import make_parameters
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.contracts.contract import ROTARY, Capability, Contract, Entry, Norm
from headcheck.properties.mistakes.evaluation import get_correct_pipeline, make_attention_inputs
from headcheck.properties.mistakes.pipeline import PipelineState, run_pipeline
from headcheck.properties.parts.norms import EPSILONS, iter_without_gains
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import TokenAxes
from headcheck.reference import causal_mask

MAX_TRACED = 3
"""the most calls to trace"""
MAX_COMPARED = 24
"""the most contracts whose queries, keys and values are looked for in a trace"""
TAKING_MASKS = (Action.KERNEL, Action.CHOICE)
"""what may be given other tensors than masks where these stand"""
STARTS = ("q", "k", "v")
LEAST = 2
"""how many of queries, keys and values must be in the trace"""
TABLES = re.compile(r"buffer .*(cos|sin\b|freq|rot|rope|angle)", re.IGNORECASE)
"""the kinds of stored tables of angles"""
FUSED = re.compile(r"query_?key_?value|c_attn|in_proj", re.IGNORECASE)
"""names of weights that hold queries, keys and values in this order, as in GPT-2 and torch"""
MASKED = -1e3
"""what is added to hidden scores is not larger than this"""


def match_by_flow(search: BindingSearch) -> Match | None:
    """Return the contract that fits what a class does with its tensors, if only one does.

    Raises SubmissionFailed if its process ends.
    """
    if search.signature.entry is not Entry.CLASS and not names_roles(search.signature.call):
        return None
    for probe in search.probes[:MAX_TRACED]:
        flow = trace_probe(probe) if _gives_every_token(probe) else None
        if flow is not None and _takes_off_what_is_added(search.signature, flow):
            with torch.no_grad():
                found = _Reading(search, probe, flow).find_contract()
            if found is not None:
                return Match(found[0], found[1], inexact=True)
    return None


def _takes_off_what_is_added(signature: Signature, flow: Flow) -> bool:
    """Whether calls without norms take tokens off the output exactly if these are added to it."""
    added, _ = _list_added(flow)
    adds = not added.isdisjoint(flow.inputs)
    return not signature.bypassed or adds == signature.adds_tokens


def _list_added(flow: Flow) -> tuple[set[int], set[int]]:
    """Return the steps whose sum is the output, however it is laid out, and those that sum."""
    passed = NEUTRAL | {Action.SUM}
    passing = {n for n, does in enumerate(flow.does) if does in passed}
    seen = walk(flow.returned[:1], lambda n: flow.steps[n].sources if n in passing else ())
    return seen - passing, seen & passing


def _list_ends(flow: Flow, signature: Signature) -> Sequence[int]:
    """Return what attention gives: all results, or of a block, what its first sum adds."""
    if not signature.bypassed:
        return flow.returned
    added, sums = _list_added(flow)
    reached = {n: flow.walk_back([n]) for n in added}
    own = [n for n, b in reached.items() if b & {*flow.softmaxes} and not b & sums]
    return [*own, *flow.returned[1:]]


def _gives_every_token(probe: CallProbe) -> bool:
    """Whether a call gives an output for every token; others may pool tokens, or leave some out."""
    tokens = probe.seen.x.shape[:2]
    return any(t.dim() == 3 and t.shape[:2] == tokens for t in probe.seen.outputs)


@dataclass(frozen=True, eq=False)
class _Reading:
    """The search for the contract that fits one trace."""

    search: BindingSearch
    probe: CallProbe
    flow: Flow

    def find_contract(self) -> tuple[Contract, Sizes] | None:
        """Return the contract of which most stages are in the trace; None if that is not clear."""
        softmaxes = self._slice & {*self.flow.softmaxes}
        if not softmaxes or not softmaxes <= {*self.flow.attending}:
            return None
        counted = [(self._count_stages(c, s), c, s) for c, s in self._iter_contracts()]
        most = max((count for count, _, _ in counted), default=0)
        best = [(c, s) for count, c, s in counted if count == most > 0 and _is_order_said(c)]
        roles = {(frozenset((m.path, m.holds) for m in c.mappings), s.case.heads) for c, s in best}
        if len(roles) != 1:
            return None
        complete = [
            (refined, sizes)
            for contract, sizes in best
            if _Roles(self.flow, self._slice, contract).are_complete()
            for refined in _iter_epsilons(contract)
        ]
        return max(complete, key=lambda each: self._count_stages(*each), default=None)

    @cached_property
    def _slice(self) -> set[int]:
        return self.flow.walk_back(_list_ends(self.flow, self.search.signature))

    def _iter_contracts(self) -> Iterator[tuple[Contract, Sizes]]:
        """Yield the contracts that shapes and names suggest and that give every weight a role."""
        hides = self._hides_later_tokens()
        likely = self.search.iter_likely(self.probe, hides=hides)
        every = list(itertools.islice(likely, MAX_COMPARED))
        turns = any(self._makes_angles(n) for n in self._slice)
        norms = any(self.flow.does[n] is Action.NORM for n in self._slice)
        for contract, sizes in every:
            if contract.call_form.axes is TokenAxes.TOKENS_FIRST:
                continue
            if not covers(contract.mappings, self.probe.built, sizes.case):
                continue
            learned = contract.has(Capability.RELATIVE)
            if learned or turns:
                yield from ((p, sizes) for p in iter_usual_placements(contract, sizes.case))
            if learned or not turns:
                yield contract, sizes
                if norms and contract.norm is Norm.NONE:
                    yield from ((normed, sizes) for normed in iter_without_gains(contract))

    def _makes_angles(self, number: int) -> bool:
        is_table = TABLES.search(self.flow.kinds[number]) is not None
        return is_table or self.flow.does[number] is Action.ANGLE

    def _hides_later_tokens(self) -> bool:
        """Whether later tokens should be hidden: a triangle in the trace says so, or words do."""
        if self.probe.blind:
            return True
        built, tokens = self.probe.built, self.probe.seen.x.shape[1]
        numbers = [r.values for n, r in self.flow.values.items() if n in self._slice]
        squares = (v.reshape(tokens, tokens) for v in numbers if v.numel() == tokens**2)
        drawn = any(is_triangle(each) for each in squares)
        return drawn or expects_causality(self.search.signature, self.probe.module, built.tensors)

    def _count_stages(self, contract: Contract, sizes: Sizes) -> int:
        """Return how many stages are in the trace; 0 if queries, keys and values are not."""
        case, seen = sizes.case, self.probe.seen
        parameters = make_parameters(contract, case, seen.stored)
        if parameters is None:
            return 0
        visible = causal_mask(seen.x.shape[1]) if contract.has(Capability.CAUSAL) else None
        inputs = make_attention_inputs(contract, case, seen.x, parameters, visible)
        state = run_pipeline(get_correct_pipeline(contract), inputs)
        if contract.has(Capability.RELATIVE) and not self._has_learned_numbers(state):
            return 0  # which number a pair gets differs from kind to kind, and no kind is wrong
        stages = list_stages(state)
        exact = INEXACT if contract.has(Capability.POSITIONS) else EXACT
        found = {k for k, stage in stages.items() if find_stage(stage, self.flow.by_size, exact)}
        if not contract.mappings and "scores" not in found:
            return 0  # what a function is given is always there
        return len(found) if len(found & {*STARTS}) >= LEAST else 0

    def _has_learned_numbers(self, state: PipelineState) -> bool:
        """Whether what is added to the right scores is in the trace."""
        added = state.scores[0] - state.scaled[0]
        stage = OracleStage("learned numbers", added, "hts", ())
        return find_stage(stage, self.flow.by_size, INEXACT) is not None


def _iter_epsilons(contract: Contract) -> Iterator[Contract]:
    """Yield the contract with the small numbers that its norm may add, its own first."""
    yield contract
    others = (e for e in EPSILONS if e != contract.norm_epsilon)
    yield from (replace(contract, norm_epsilon=e) for e in others if contract.norm is not Norm.NONE)


def _is_order_said(contract: Contract) -> bool:
    """Whether the names of fused weights say the order of what they hold.

    Queries, keys and values are in a trace in any order; what is wrong after them cannot tell it.
    """
    fused = (m for m in contract.mappings if len(m.holds) > 1 and m.holds[0].startswith("W_"))
    return all(
        "".join(name[-1] for name in m.holds) in m.path.lower()
        or (FUSED.search(m.path) and m.holds == ("W_q", "W_k", "W_v"))
        for m in fused
    )


@dataclass(frozen=True, eq=False)
class _Roles:
    """What the operations of a trace may do in the attention of a contract."""

    flow: Flow
    slice: set[int]
    contract: Contract

    def are_complete(self) -> bool:
        """Whether every operation on which a result rests has a role in this attention."""
        return all(self._has_role(n) for n in self.slice & self._computed)

    @cached_property
    def _computed(self) -> set[int]:
        """The steps that rest on inputs or weights."""
        return self.flow.walk_on([*self.flow.inputs, *self.flow.parameters])

    def _has_role(self, number: int) -> bool:
        step, does = self.flow.steps[number], self.flow.does[number]
        if does is Action.SUM:
            return self._is_known_sum(number)
        if does is Action.FACTOR:
            return self._is_known_factor(number)
        if does in TAKING_MASKS:
            fixed = (n for n in step.sources if n not in self._computed)
            return all(self._is_mask(n, MASKED) for n in fixed)
        if does is Action.REDUCTION:
            return bool(self._exponentials) and number in self._scored
        return step.kind.startswith(GIVEN) or does in self._usual

    @cached_property
    def _usual(self) -> frozenset[Action]:
        """What an operation of this attention may do, whatever it is done to."""
        turning = {Action.TURN} if self._turns else ()
        norming = NORMING if self.contract.norm else ()
        looks_up = {Action.LOOKUP} if self.contract.has(Capability.RELATIVE) else ()
        gates = {Action.GATE} if self.contract.has(Capability.GATED) else ()
        return NEUTRAL.union(PRODUCTS, SOFTMAXES, turning, norming, looks_up, gates)

    @cached_property
    def _scored(self) -> set[int]:
        """The steps that rest on products of what tokens give with what tokens give."""
        return self.flow.walk_on(self.flow.comparing & self.slice)

    @cached_property
    def _exponentials(self) -> list[int]:
        return [n for n in self.slice if self.flow.does[n] is Action.EXPONENTIAL]

    @property
    def _turns(self) -> bool:
        return self.contract.positions in ROTARY

    def _is_known_sum(self, number: int) -> bool:
        """Whether a sum adds a bias, a mask, or two halves of a rotation or an output."""
        sources = self.flow.steps[number].sources
        fixed = [n for n in sources if n not in self.flow.from_tokens]
        if fixed:
            return all(n in self._computed or self._is_mask(n, MASKED) for n in fixed)
        return not any(self._is_input(n) for n in sources)

    def _is_known_factor(self, number: int) -> bool:
        """Whether a product scales, masks, or rotates."""
        sources = self.flow.steps[number].sources
        fixed = [n for n in sources if n not in self.flow.from_tokens]
        if len(sources) < 2:
            return True
        single = all(self.flow.numels[n] == 1 for n in fixed)
        masks = all(self._is_mask(n, 0.0) for n in fixed)
        if not fixed:
            divides = number in self.flow.walk_on(self._exponentials)
            return bool(self.contract.norm) or divides or self._gates_heads(number)
        return single or masks or self._turns or bool(self.contract.norm)

    def _gates_heads(self, number: int) -> bool:
        """Whether a product is of a gate and of what heads attend to; other gates may be meant."""
        does, sources = self.flow.does, {*self.flow.steps[number].sources}
        gates = self.flow.walk_on(n for n in self.slice if does[n] is Action.GATE)
        attended = self.flow.walk_on(n for n in self.slice if does[n] in SOFTMAXES)
        layers = (n for n in attended if does[n] is Action.LINEAR)
        return bool(sources & gates - attended and sources & attended - self.flow.walk_on(layers))

    def _is_mask(self, number: int, lowest: float) -> bool:
        """Whether a tensor holds only 0 and 1, or 0 and numbers that hide."""
        recorded = self.flow.values.get(number)
        if recorded is None:
            return False
        values = recorded.values
        return bool(((values == 0) | (values == 1) | (values < lowest)).all())

    def _is_input(self, number: int) -> bool:
        """Whether a step only lays out a given tensor."""
        return self.flow.skip_layouts(number) in self.flow.inputs
