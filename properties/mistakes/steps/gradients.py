"""Faulty steps with right results, through which no gradient passes."""

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import CORRECT, PipelineState, StepOverrides, map_qkv


def cut(t: Tensor) -> Tensor:
    """Let no gradient through."""
    return t.detach()


def average_by_cut_weights(s: PipelineState) -> Tensor:
    """Average with weights that let no gradient through; returned weights let it through."""
    return s.applied_weights.detach() @ s.value


def cut_role(number: int) -> StepOverrides:
    """Return the override that lets no gradient through the queries, the keys or the values."""

    def assign(s: PipelineState) -> tuple[Tensor, ...]:
        return tuple(t.detach() if i == number else t for i, t in enumerate(s.split))

    return {"assign": assign}


def cut_input_of(number: int) -> StepOverrides:
    """Return the override that lets no gradient from queries, keys or values to their input."""

    def project(s: PipelineState) -> object:
        own = CORRECT.project(s)
        cut_off = s.copy()
        cut_off.entered = map_qkv(Tensor.detach, s.entered)
        return tuple(t if i != number else CORRECT.project(cut_off)[i] for i, t in enumerate(own))

    return {"project": project}


def cut_heads(kept: int) -> StepOverrides:
    """Return the override that lets gradients through the first heads only."""

    def mix(s: PipelineState) -> Tensor:
        t = CORRECT.mix(s)
        return torch.cat([t[:, :kept], t[:, kept:].detach()], dim=1)

    return {"mix": mix}
