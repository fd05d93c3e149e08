"""Mistakes with right outputs and wrong gradients: a part is cut from the graph."""

from collections.abc import Callable, Sequence

from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_rare_mistake
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
    map_result,
)


def change_after(step: str, change: Callable[[Tensor], Tensor]) -> StepOverrides:
    """Return the override with a right step whose result is changed."""
    right = getattr(CORRECT, step)

    def changed(s: PipelineState) -> object:
        return map_result(change, right(s))

    return {step: changed}


def cut(t: Tensor) -> Tensor:
    """Let no gradient through."""
    return t.detach()


def average_by_cut_weights(s: PipelineState) -> Tensor:
    """Average with weights that let no gradient through; returned weights let it through."""
    return s.applied_weights.detach() @ s.value


def cut_values(s: PipelineState) -> QKVTensors:
    query, key, value = s.split
    return query, key, value.detach()


CUT = "only detach"

GRADIENTS: Sequence[Mistake] = (
    define_rare_mistake(
        "output_detached",
        "No gradient leaves the output: the result is detached, or computed without gradients.",
        CUT,
        unless=Capability.BLOCK,
    ).simulated_by(change_after("finish", cut)),
    define_rare_mistake(
        "weights_detached",
        "No gradient flows through the attention weights: queries and keys are never trained.",
        CUT,
    ).simulated_by(change_after("normalise", cut), {"mix": average_by_cut_weights}),
    define_rare_mistake(
        "values_detached", "No gradient flows through the values: they are detached.", CUT
    ).simulated_by(assign=cut_values),
)
