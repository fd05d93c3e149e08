"""Evaluate pipelines on the inputs of a case: the correct one, or many that share their steps."""

from collections.abc import Callable, Sequence

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
        self._path = [_Node(PipelineState(inputs))]
        """the states of the base pipeline after 0, 1, 2, … steps"""

    def evaluate(self, pipeline: Pipeline) -> PipelineState | None:
        """Return all results of a pipeline, or None if some shapes in it do not fit."""
        functions = [getattr(pipeline, step) for step in STEP_NAMES]
        named = zip(STEP_NAMES, functions, self._base_functions, strict=True)
        return self.evaluate_with({step: f for step, f, own in named if f is not own})

    def evaluate_with(self, overrides: StepOverrides) -> PipelineState | None:
        """Return the results of the base pipeline with some steps replaced."""
        functions = self._base_functions.copy()
        for step, function in overrides.items():
            functions[PLACES[step]] = function
        places = [PLACES[step] for step in overrides] or [0]
        last, node = max(places), self._follow_base(min(places))
        for place in range(min(places), last):
            node = node and node.get_successor(RESULT_NAMES[place], functions[place])
        if node is None:
            return None
        state = node.state.copy()
        try:
            for result_name, function in zip(RESULT_NAMES[last:], functions[last:], strict=True):
                setattr(state, result_name, function(state))
        except SHAPE_ERRORS:
            return None
        return state

    def _follow_base(self, place: int) -> "_Node | None":
        """Return the state of the base before a step."""
        while len(self._path) <= place:
            done = len(self._path) - 1
            node = self._path[-1].get_successor(RESULT_NAMES[done], self._base_functions[done])
            if node is None:
                return None
            self._path.append(node)
        return self._path[place]


class _Node:
    """The state after some steps, and its successors by the function of the next step."""

    __slots__ = ("state", "successors")

    def __init__(self, state: PipelineState) -> None:
        self.state = state
        self.successors: dict[Callable[[PipelineState], object], _Node | None] = {}

    def get_successor(
        self, result_name: str, function: Callable[[PipelineState], object]
    ) -> "_Node | None":
        if function not in self.successors:
            state = self.state.copy()
            try:
                setattr(state, result_name, function(state))
                self.successors[function] = _Node(state)
            except SHAPE_ERRORS:
                self.successors[function] = None
        return self.successors[function]
