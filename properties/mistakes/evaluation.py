"""Evaluate pipelines on the inputs of a case: the correct one, or many that share their steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.contracts.variant import get_variant, hides_later_tokens, list_read
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    RESULT_NAMES,
    SHAPE_ERRORS,
    STEP_NAMES,
    WITHOUT_ATTENTION,
    AttentionInputs,
    Pipeline,
    PipelineState,
    QKVTensors,
    StepOverrides,
)
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters

WANTED = {
    Returns.OUTPUT_AND_WEIGHTS: ("output", "weights"),
    Returns.OUTPUT_AND_LOGSUMEXP: ("output", "logsumexp"),
}
"""the names of the returned results, where these are more than the output"""
PLACES = {step: place for place, step in enumerate(STEP_NAMES)}
SHARED = PLACES["normalise"]
"""the first step that may be run for many pipelines at once; no step from here on reads a mask"""
MAX_TOGETHER = 256
"""how many pipelines share the last steps at once"""
Shapes = tuple[tuple[int, ...], ...]


def get_wanted(contract: Contract) -> tuple[str, ...]:
    """Return the names of the results that a contract asks for."""
    return WANTED.get(contract.returns, ("output",))


def get_correct_pipeline(contract: Contract) -> Pipeline:
    """Return the pipeline that computes what a contract asks for."""
    return CORRECT if contract.has(Capability.ATTENTION) else WITHOUT_ATTENTION


def make_attention_inputs(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    others: Sequence[Tensor] = (),
) -> AttentionInputs:
    """Return the inputs on which pipelines are evaluated for a case."""
    return AttentionInputs(
        x=x,
        parameters=parameters,
        heads=case.heads,
        may_attend=may_attend,
        scale=get_scale(contract, case),
        context_length=case.context_length,
        causal=hides_later_tokens(contract, case),
        wanted=get_wanted(contract),
        variant=get_variant(contract, case),
        window=case.window,
        block=case.block,
        others=list_read(contract, x, others),
    )


class MemoisedEvaluator:
    """Evaluates pipelines that differ from a base in one or two steps, all on one input.

    The states up to the last step that differs are cached, since other pipelines share them.
    """

    def __init__(self, inputs: AttentionInputs, base: Pipeline) -> None:
        self._base_functions = [getattr(base, step) for step in STEP_NAMES]
        self._begin = _Node(PipelineState(inputs))
        self._read: dict[int, Mapping[str, Shapes]] = {}

    def evaluate(self, pipeline: Pipeline) -> PipelineState | None:
        """Return all results of a pipeline, or None if some shapes in it do not fit."""
        functions = [getattr(pipeline, step) for step in STEP_NAMES]
        named = zip(STEP_NAMES, functions, self._base_functions, strict=True)
        return self.evaluate_with({step: f for step, f, own in named if f is not own})

    def evaluate_with(self, overrides: StepOverrides) -> PipelineState | None:
        """Return the results of the base pipeline with some steps replaced."""
        place, state = self._replace(overrides)
        return state and self._run_base(state, place)

    def evaluate_all(
        self, every: Sequence[StepOverrides]
    ) -> Iterator[tuple[Sequence[int], tuple[Tensor, ...]]]:
        """Yield the answers of all pipelines that can be evaluated, with their places in `every`.

        The first axis of each tensor is for these places. The last steps, which such pipelines
        share, are run once for many of them.
        """
        waiting: dict[int, list[tuple[int, PipelineState]]] = {}
        for index, overrides in enumerate(every):
            place, state = self._replace(overrides)
            state, place = state and self._run_base(state, place, SHARED), max(place, SHARED)
            if state is not None and place < len(STEP_NAMES) and self._is_usual(state, place):
                waiting.setdefault(place, []).append((index, state))
            elif state is not None and self._run_base(state, place):
                yield [index], tuple(t[None] for t in state.answer)
        for place, found in waiting.items():
            for part in (found[i : i + MAX_TOGETHER] for i in range(0, len(found), MAX_TOGETHER)):
                many = _ManyStates([state for _, state in part])
                self._run_base(many, place)
                answer = (t.unflatten(0, (len(part), -1)) for t in many.answer)
                yield [index for index, _ in part], tuple(answer)

    def _replace(self, overrides: StepOverrides) -> tuple[int, PipelineState | None]:
        """Return the place after the last replaced step, and the state there."""
        if not overrides:
            return 0, self._begin.state.copy()
        *earlier, (last, final) = sorted((PLACES[step], f) for step, f in overrides.items())
        node: _Node | None = self._begin
        place = 0
        for own, function in earlier:
            node = node and self._follow_base(node, place, own)
            node, place = node and node.get_successor(own, function), own + 1
        node = node and self._follow_base(node, place, last)
        return last + 1, None if node is None else _take_step(node.state, last, final)

    def _follow_base(self, node: "_Node", start: int, end: int) -> "_Node | None":
        """Return the node after the base's steps between two places."""
        path = node.base_path
        while len(path) <= end - start:
            place = start + len(path) - 1
            last = path[-1]
            path.append(last and last.get_successor(place, self._base_functions[place]))
        return path[end - start]

    def _run_base(
        self, state: PipelineState, start: int, end: int = len(STEP_NAMES)
    ) -> PipelineState | None:
        """Run the base's steps between two places."""
        try:
            for place in range(start, end):
                setattr(state, RESULT_NAMES[place], self._base_functions[place](state))
        except SHAPE_ERRORS:
            return None
        return state

    def _is_usual(self, state: PipelineState, place: int) -> bool:
        """Whether what the steps from a place on read has the shapes that the base gives it."""
        if place not in self._read:
            usual = self._run_base(self._begin.state.copy(), 0, place)
            many = _ManyStates([usual] if usual else [])
            self._run_base(many, place)
            self._read[place] = {name: _get_shapes(getattr(usual, name)) for name in many.read}
        read = self._read[place].items()
        return all(_get_shapes(getattr(state, name)) == shapes for name, shapes in read)


class _Node:
    """The state after some steps, and its successors by the function of the next step."""

    __slots__ = ("base_path", "state", "successors")

    def __init__(self, state: PipelineState) -> None:
        self.state = state
        self.successors: dict[Callable[[PipelineState], object], _Node | None] = {}
        self.base_path: list[_Node | None] = [self]
        """the nodes after 0, 1, 2, … further steps of the base"""

    def get_successor(
        self, place: int, function: Callable[[PipelineState], object]
    ) -> "_Node | None":
        if function not in self.successors:
            state = _take_step(self.state, place, function)
            self.successors[function] = None if state is None else _Node(state)
        return self.successors[function]


class _ManyStates(PipelineState):
    """States as one: results are joined along the axis of sequences, once a step reads them."""

    def __init__(self, states: Sequence[PipelineState]) -> None:
        super().__init__(states[0].inputs)
        self.states = states
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Tensor | QKVTensors:
        results = [getattr(state, name) for state in self.states]
        joined = torch.cat(results) if isinstance(results[0], Tensor) else _join_each(results)
        self.read.append(name)
        setattr(self, name, joined)
        return joined


def _join_each(results: Sequence[QKVTensors]) -> QKVTensors:
    queries, keys, values = (torch.cat(every) for every in zip(*results, strict=True))
    return queries, keys, values


def _get_shapes(result: Tensor | QKVTensors) -> Shapes:
    return tuple(t.shape for t in ((result,) if isinstance(result, Tensor) else result))


def _take_step(
    state: PipelineState, place: int, function: Callable[[PipelineState], object]
) -> PipelineState | None:
    """Return a copy of a state with the result of one more step; None if shapes do not fit."""
    state = state.copy()
    try:
        setattr(state, RESULT_NAMES[place], function(state))
    except SHAPE_ERRORS:
        return None
    return state
