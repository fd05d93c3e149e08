"""Faulty steps for a gate that acts elsewhere, has another input, or is not a sigmoid."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
    linear,
)
from headcheck.reference import ask_gate

Function = Callable[[Tensor], Tensor]


def _get_weight(s: PipelineState) -> Tensor:
    if s.p.W_gate is None:
        raise ValueError("there is no gate")
    return s.p.W_gate


def ask(s: PipelineState) -> Tensor:
    """X W_gateᵀ."""
    _get_weight(s)
    return ask_gate(s.x, s.p)


def make_gate(s: PipelineState) -> Tensor:
    return torch.sigmoid(ask(s))


def open_gate(s: PipelineState) -> Tensor:
    return s.merged


def with_gate(
    make: Callable[[PipelineState], Tensor],
) -> Callable[[PipelineState], Tensor]:
    """Multiply the merged heads by another gate."""
    return lambda s: s.merged * make(s)


def with_function(function: Function) -> Callable[[PipelineState], Tensor]:
    """Compute the gate with another function than the sigmoid."""
    return with_gate(lambda s: function(ask(s)))


def with_changed_gate(function: Function) -> Callable[[PipelineState], Tensor]:
    """Change the gate after the sigmoid."""
    return with_gate(lambda s: function(make_gate(s)))


def made_of_context(s: PipelineState) -> Tensor:
    return s.merged * torch.sigmoid(linear(s.merged, _get_weight(s)))


def made_by_queries(s: PipelineState) -> Tensor:
    return s.merged * torch.sigmoid(s.projected[0])


def added(s: PipelineState) -> Tensor:
    return s.merged + make_gate(s)


def one_for_each_head(combine: Function) -> Callable[[PipelineState], Tensor]:
    """Give all numbers of a head the same gate, which `combine` computes from their gates."""

    def gate(s: PipelineState) -> Tensor:
        asked = ask(s).unflatten(-1, (s.inputs.heads, -1))
        return s.merged * torch.sigmoid(combine(asked).expand_as(asked)).flatten(-2)

    return gate


def heads_in_turn(s: PipelineState) -> Tensor:
    """Interpret neighbouring columns of the gate as belonging to different heads."""
    asked = ask(s).unflatten(-1, (-1, s.inputs.heads))
    return s.merged * torch.sigmoid(asked.mT.flatten(-2))


def after_output(s: PipelineState) -> Tensor:
    return CORRECT.finish(s) * make_gate(s)


def on_projected(*numbers: int) -> StepOverrides:
    """Return the overrides that put the gate on queries (0), keys (1) or values (2)."""

    def project(s: PipelineState) -> QKVTensors:
        q, k, v = (
            t * make_gate(s) if number in numbers else t
            for number, t in enumerate(CORRECT.project(s))
        )
        return q, k, v

    return {"project": project, "gate": open_gate}


def cut(s: PipelineState) -> Tensor:
    """Let no gradient through the gate."""
    return s.merged * make_gate(s).detach()
