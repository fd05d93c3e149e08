"""Mistakes in gates, which multiply the output of the heads."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
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


def on_projected(*numbers: int) -> StepOverrides:
    """Return the overrides that put the gate on queries (0), keys (1) or values (2)."""

    def project(s: PipelineState) -> QKVTensors:
        q, k, v = (
            t * make_gate(s) if number in numbers else t
            for number, t in enumerate(CORRECT.project(s))
        )
        return q, k, v

    return {"project": project, "gate": open_gate}


GATES = require(
    Capability.GATED,
    define_mistake(
        "gate_not_used", "What the heads give goes to the output layer without the gate."
    ).simulated_by(gate=open_gate),
    define_mistake(
        "gate_after_the_output_layer",
        "The gate multiplies the result of the output layer; it should come before that layer.",
    ).simulated_by(gate=open_gate, finish=lambda s: CORRECT.finish(s) * make_gate(s)),
    define_mistake(
        "gate_on_values",
        "Each token's gate multiplies its own value; it should multiply the token's output.",
    ).simulated_by(on_projected(2)),
    define_mistake(
        "gate_on_queries", "The gate multiplies the queries, not what the heads give."
    ).simulated_by(on_projected(0)),
    define_mistake(
        "gate_on_keys", "The gate multiplies the keys, not what the heads give."
    ).simulated_by(on_projected(1)),
    define_mistake(
        "gate_without_sigmoid",
        "The result of the gate's layer multiplies the heads directly: the sigmoid is missing.",
    ).simulated_by(gate=with_function(lambda t: t)),
    define_mistake(
        "gate_by_another_function",
        "The gate uses another function instead of the sigmoid.",
        "relu:tanh",
    ).simulated_by(
        {"gate": with_function(torch.tanh)},
        {"gate": with_function(F.silu)},
        {"gate": with_function(torch.relu)},
        {"gate": with_function(F.gelu)},
        {"gate": with_function(lambda t: t.softmax(-1))},
        {"gate": with_function(lambda t: F.softplus(t))},
        {"gate": with_function(lambda t: t.exp())},
        {"gate": with_function(F.hardsigmoid)},
        {"gate": with_function(lambda t: t.clamp(0, 1))},
    ),
    define_mistake(
        "gate_inverted",
        "The gate is inverted: 1 minus the sigmoid is open where it should be closed.",
    ).simulated_by(gate=with_changed_gate(lambda t: 1 - t)),
    define_mistake(
        "gate_applied_twice", "The gate multiplies what the heads give twice."
    ).simulated_by(gate=with_changed_gate(torch.square)),
    define_mistake(
        "gate_doubled", "The gate is doubled: it should let through at most all."
    ).simulated_by(gate=with_changed_gate(lambda t: 2 * t)),
    define_mistake(
        "gate_added", "The gate is added to what the heads give; it should multiply it."
    ).simulated_by(gate=added),
    define_mistake(
        "gate_beside_one",
        "The output of the heads is added to the gated output, so the gate closes nothing.",
    ).simulated_by(gate=with_changed_gate(lambda t: 1 + t)),
    define_mistake(
        "gate_of_what_is_attended",
        "The gate is computed from the output of the heads; it should be computed from the input "
        "token.",
    ).simulated_by(gate=lambda s: s.merged * torch.sigmoid(linear(s.merged, _get_weight(s)))),
    define_mistake(
        "gate_of_the_queries",
        "The gate is the sigmoid of the queries: the gate's own layer is not used.",
    ).simulated_by(gate=lambda s: s.merged * torch.sigmoid(s.projected[0])),
    define_mistake(
        "one_gate_for_each_head",
        "All numbers of a head have one gate; each should have its own.",
    ).simulated_by(
        {"gate": one_for_each_head(lambda t: t.mean(-1, keepdim=True))},
        {"gate": one_for_each_head(lambda t: t[..., :1])},
        {"gate": one_for_each_head(lambda t: t.sum(-1, keepdim=True))},
    ),
    define_mistake(
        "one_gate_for_all_heads",
        "The gate of one head is used for all of them; each should have its own.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"gate": one_for_each_head(lambda t: t[..., :1, :])},
        {"gate": one_for_each_head(lambda t: t.mean(-2, keepdim=True))},
    ),
    define_mistake(
        "gate_of_other_columns",
        "The columns of the gate do not match the columns of the heads that it multiplies.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"gate": heads_in_turn},
        {"gate": with_changed_gate(lambda t: t.flip(-1))},
    ),
    define_mistake(
        "gate_of_another_token",
        "The gate belongs to another token than the output that it multiplies.",
    ).simulated_by(
        {"gate": with_changed_gate(lambda t: t[:, :1])},
        {"gate": with_changed_gate(lambda t: t[:, -1:])},
        {"gate": with_changed_gate(lambda t: t.roll(1, 1))},
        {"gate": with_changed_gate(lambda t: t.mean(1, keepdim=True))},
    ),
    define_rare_mistake(
        "gate_rounded", "The gate is open or closed, and nothing between."
    ).simulated_by(
        {"gate": with_changed_gate(torch.round)},
        {"gate": with_gate(lambda s: (ask(s) > 0).to(s.merged.dtype))},
    ),
)
