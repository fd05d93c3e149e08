"""Evaluate many pipelines on one input, computing each shared step only once."""

from collections.abc import Callable

from headcheck.properties.mistakes.pipeline import (
    RESULT_NAMES,
    SHAPE_ERRORS,
    STEP_NAMES,
    AttentionInputs,
    Pipeline,
    PipelineState,
    StepOverrides,
)

PLACES = {step: place for place, step in enumerate(STEP_NAMES)}


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
