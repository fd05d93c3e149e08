"""Bind a class by what it does with its tensors, if nothing explains what it returns.

One call is traced. The class is read as the attention whose queries, keys and values appear in the
trace, if every other operation and every weight has a role in this attention. So code that is wrong
further on, in a way that no known mistake describes, is still judged. A class that does anything
else with its tensors may be another kind of attention, and is not judged.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from headcheck.grader.grading.places.flow import (
    GIVEN,
    KERNELS,
    LAYOUTS,
    PRODUCTS,
    Flow,
    read_trace,
)
from headcheck.grader.grading.places.locate import ERRORS, INEXACT
from headcheck.grader.grading.places.matching import EXACT, find_stage
from headcheck.grader.grading.places.stages import OracleStage, list_stages
from headcheck.grader.sandbox.grader_side.subject import ChannelModule
from headcheck.properties.binding.by_name import covers
from headcheck.properties.binding.calls import names_roles
from headcheck.properties.binding.hypotheses import Sizes, iter_usual_placements
from headcheck.properties.binding.intent import expects_causality, is_triangle
from headcheck.properties.binding.matching import make_parameters
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.contracts.contract import ROTARY, Capability, Contract, Entry, Norm
from headcheck.properties.mistakes.evaluation import (
    get_correct_pipeline,
    make_attention_inputs,
)
from headcheck.properties.mistakes.pipeline import PipelineState, run_pipeline
from headcheck.properties.parts.norms import EPSILONS, iter_without_gains
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import TokenAxes
from headcheck.reference import causal_mask

MAX_TRACED = 3
"""the most calls to trace"""
MAX_COMPARED = 24
"""the most contracts whose queries, keys and values are looked for in a trace"""
EXPONENTIALS = frozenset({"exp", "exp_"})
SOFTMAXES = KERNELS | {"softmax", "_softmax"} | EXPONENTIALS
NORMALISING = frozenset({"max", "amax", "sum", "sub_", "logsumexp"})
"""what else a softmax that is written by hand consists of"""
STARTS = ("q", "k", "v")
LEAST = 2
"""how many of queries, keys and values must be in the trace"""
_NEUTRAL = (
    "chunk split __getitem__ select narrow unbind index_select expand expand_as repeat tile "
    "repeat_interleave cat concat concatenate stack hstack vstack clone detach to type type_as "
    "float double half dropout dropout_ roll flip masked_fill masked_fill_ where __setitem__ "
    "written alias triu tril pad"
)
NEUTRAL = LAYOUTS | frozenset(_NEUTRAL.split())
"""functions that move numbers, hide some, or leave them as they are"""
_SUMS = "add __add__ __radd__ add_ __iadd__ sub __sub__ __rsub__ rsub sub_ __isub__"
SUMS = frozenset(_SUMS.split())
TAKING_MASKS = KERNELS | {"where"}
"""functions that may be given other tensors than masks where these stand"""
_FACTORS = (
    "mul __mul__ __rmul__ mul_ __imul__ multiply div __truediv__ div_ __itruediv__ true_divide "
    "divide __rtruediv__"
)
FACTORS = frozenset(_FACTORS.split())
_TURNING = "neg __neg__ view_as_complex view_as_real complex real imag addcmul"
TURNING = frozenset(_TURNING.split())
"""functions that also rotate queries and keys"""
NORMS = frozenset({"layer_norm", "rms_norm"})
_NORMING = "pow __pow__ square mean var rsqrt sqrt normalize"
NORMING = NORMS | frozenset(_NORMING.split())
"""functions that also norm them"""
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
    adds = any(flow.steps[n].kind.startswith("input ") for n in added)
    return not signature.bypassed or adds == signature.adds_tokens


def _list_added(flow: Flow) -> tuple[set[int], set[int]]:
    """Return the steps whose sum is the output, however it is laid out, and those that sum."""
    added, sums, todo = set[int](), set[int](), list(flow.returned[:1])
    while todo:
        number = todo.pop()
        if flow.steps[number].kind not in SUMS | NEUTRAL:
            added.add(number)
        elif number not in sums:
            sums.add(number)
            todo += flow.steps[number].sources
    return added, sums


def _list_ends(flow: Flow, signature: Signature) -> Sequence[int]:
    """Return what attention gives: all results, or of a block, what its first sum adds."""
    if not signature.bypassed:
        return flow.returned
    added, sums = _list_added(flow)
    softmaxes = {n for n, step in enumerate(flow.steps) if step.kind in SOFTMAXES}
    reached = {n: flow.walk_back([n]) for n in added}
    own = [n for n, before in reached.items() if before & softmaxes and not before & sums]
    return [*own, *flow.returned[1:]]


def _gives_every_token(probe: CallProbe) -> bool:
    """Whether a call gives an output for every token; others may pool tokens, or leave some out."""
    tokens = probe.seen.x.shape[:2]
    return any(t.dim() == 3 and t.shape[:2] == tokens for t in probe.seen.outputs)


def trace_probe(probe: CallProbe) -> Flow | None:
    """Return the flow of one call of a probe's module; None if it cannot be traced."""
    module, x = probe.module, probe.seen.x
    assert isinstance(module, ChannelModule), "it is at the other end of a channel"
    with suppress(*ERRORS):
        module.write(probe.seen.stored)
        return read_trace(*module.trace([x if probe.batched else x[0]]))
    return None


@dataclass(frozen=True, eq=False)
class _Reading:
    """The search for the contract that fits one trace."""

    search: BindingSearch
    probe: CallProbe
    flow: Flow

    def find_contract(self) -> tuple[Contract, Sizes] | None:
        """Return the contract of which most stages are in the trace; None if that is not clear."""
        softmaxes = [n for n in self._slice if self.flow.steps[n].kind in SOFTMAXES]
        if not softmaxes or not all(map(self.flow.weighs_tokens, softmaxes)):
            return None
        counted = [(self._count_stages(c, s), c, s) for c, s in self._iter_contracts()]
        most = max((count for count, _, _ in counted), default=0)
        best = [(c, s) for count, c, s in counted if count == most > 0 and _is_order_said(c)]
        if len({(_name_roles(c), s.case.heads) for c, s in best}) != 1:
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
        every = list(
            itertools.islice(self.search.iter_likely(self.probe, hides=hides), MAX_COMPARED)
        )
        turns = any(self._makes_angles(n) for n in self._slice)
        norms = any(self.flow.steps[n].kind in NORMS for n in self._slice)
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
        kind = self.flow.steps[number].kind
        return kind in ("cos", "sin", "polar") or TABLES.search(kind) is not None

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


def _name_roles(contract: Contract) -> frozenset[tuple[str, tuple[str, ...]]]:
    """Return what each weight holds, in order."""
    return frozenset((m.path, m.holds) for m in contract.mappings)


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
        return self.flow.walk_on(self._list_given("input ", "parameter "))

    @cached_property
    def _from_tokens(self) -> set[int]:
        return self.flow.walk_on(self._list_given("input "))

    def _list_given(self, *kinds: str) -> list[int]:
        return [n for n, step in enumerate(self.flow.steps) if step.kind.startswith(kinds)]

    def _has_role(self, number: int) -> bool:
        step = self.flow.steps[number]
        if step.kind in SUMS:
            return self._is_known_sum(number)
        if step.kind in FACTORS:
            return self._is_known_factor(number)
        if step.kind in TAKING_MASKS:
            fixed = (n for n in step.sources if n not in self._computed)
            return all(self._is_mask(n, MASKED) for n in fixed)
        looks_up = {"embedding"} if self.contract.has(Capability.RELATIVE) else ()
        gates = {"sigmoid"} if self.contract.has(Capability.GATED) else ()
        extra = (
            (TURNING if self._turns else ()),
            (NORMING if self.contract.norm else ()),
            looks_up,
            gates,
        )
        if step.kind in NORMALISING:
            return bool(self._exponentials) and number in self._scored
        plain = step.kind.startswith(GIVEN) or step.kind in NEUTRAL | PRODUCTS | SOFTMAXES
        return plain or any(step.kind in kinds for kinds in extra)

    @cached_property
    def _scored(self) -> set[int]:
        """The steps that rest on products of what tokens give with what tokens give."""
        products = (n for n in self.slice if self.flow.steps[n].kind in PRODUCTS)
        tokens = self._from_tokens
        return self.flow.walk_on(
            [n for n in products if len(tokens & {*self.flow.steps[n].sources}) > 1]
        )

    @cached_property
    def _exponentials(self) -> list[int]:
        return [n for n in self.slice if self.flow.steps[n].kind in EXPONENTIALS]

    @property
    def _turns(self) -> bool:
        return self.contract.positions in ROTARY

    def _is_known_sum(self, number: int) -> bool:
        """Whether a sum adds a bias, a mask, or two halves of a rotation or an output."""
        sources = self.flow.steps[number].sources
        fixed = [n for n in sources if n not in self._from_tokens]
        if fixed:
            return all(n in self._computed or self._is_mask(n, MASKED) for n in fixed)
        return not any(self._is_input(n) for n in sources)

    def _is_known_factor(self, number: int) -> bool:
        """Whether a product scales, masks, or rotates."""
        sources = self.flow.steps[number].sources
        fixed = [n for n in sources if n not in self._from_tokens]
        if len(sources) < 2:
            return True
        single = all(math.prod(self.flow.steps[n].shape) == 1 for n in fixed)
        masks = all(self._is_mask(n, 0.0) for n in fixed)
        if not fixed:
            divides = number in self.flow.walk_on(self._exponentials)
            return bool(self.contract.norm) or divides or self._gates_heads(number)
        return single or masks or self._turns or bool(self.contract.norm)

    def _gates_heads(self, number: int) -> bool:
        """Whether a product is of a gate and of what heads attend to; other gates may be meant."""
        steps = self.flow.steps
        sigmoids = (n for n in self.slice if steps[n].kind == "sigmoid")
        softmaxes = (n for n in self.slice if steps[n].kind in SOFTMAXES)
        gates, attended = self.flow.walk_on(sigmoids), self.flow.walk_on(softmaxes)
        layers = (n for n in attended if steps[n].kind == "linear")
        sources = {*steps[number].sources}
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
        step = self.flow.steps[number]
        while step.kind in LAYOUTS and len(step.sources) == 1:
            step = self.flow.steps[step.sources[0]]
        return step.kind.startswith("input ")
