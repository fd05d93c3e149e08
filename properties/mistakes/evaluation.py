"""Evaluate many pipelines on one input, each step that they share once."""

from collections.abc import Callable

from properties.mistakes.pipeline import (
    RESULT_NAMES,
    SHAPE_ERRORS,
    STEP_NAMES,
    AttentionInputs,
    Pipeline,
    PipelineState,
)


class MemoisedEvaluator:
    """Evaluates pipelines that differ from a base in a step or two, all on one input.

    The states up to the last step that differs are cached, since other pipelines share them.
    """

    def __init__(self, inputs: AttentionInputs, base: Pipeline) -> None:
        self._base_functions = [getattr(base, step) for step in STEP_NAMES]
        self._root = _Node(PipelineState(inputs))

    def evaluate(self, pipeline: Pipeline) -> PipelineState | None:
        """Return all results of a pipeline, or None if some shapes in it do not fit."""
        functions = [getattr(pipeline, step) for step in STEP_NAMES]
        differs = [
            i for i, function in enumerate(functions) if function is not self._base_functions[i]
        ]
        last = differs[-1] if differs else 0
        node = self._root
        for result_name, function in zip(RESULT_NAMES[:last], functions, strict=False):
            successor = node.get_successor(result_name, function)
            if successor is None:
                return None
            node = successor
        state = node.state.copy()
        try:
            for result_name, function in zip(RESULT_NAMES[last:], functions[last:], strict=True):
                setattr(state, result_name, function(state))
        except SHAPE_ERRORS:
            return None
        return state


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
