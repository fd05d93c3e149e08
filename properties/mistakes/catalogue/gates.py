"""Mistakes in gates, which multiply the output of the heads."""

import torch
import torch.nn.functional as F

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import gates
from headcheck.properties.mistakes.steps.gates import with_changed_gate, with_function, with_gate

GATES = require(
    Capability.GATED,
    define_mistake(
        "gate_not_used", "What the heads give goes to the output layer without the gate.", "return"
    ).simulated_by(gate=gates.open_gate),
    define_mistake(
        "gate_after_the_output_layer",
        "The gate multiplies the result of the output layer; it should come before that layer.",
    ).simulated_by(gate=gates.open_gate, finish=gates.after_output),
    define_mistake(
        "gate_on_values",
        "Each token's gate multiplies its own value; it should multiply the token's output.",
        "sigmoid",
    ).simulated_by(gates.on_projected(2)),
    define_mistake(
        "gate_on_queries", "The gate multiplies the queries, not what the heads give.", "sigmoid"
    ).simulated_by(gates.on_projected(0)),
    define_mistake(
        "gate_on_keys", "The gate multiplies the keys, not what the heads give.", "sigmoid"
    ).simulated_by(gates.on_projected(1)),
    define_mistake(
        "gate_without_sigmoid",
        "The result of the gate's layer multiplies the heads directly: the sigmoid is missing.",
    ).simulated_by(gate=with_function(lambda t: t)),
    define_mistake(
        "gate_by_another_function",
        "The gate uses another function instead of the sigmoid.",
        "relu:tanh | relu | clamp",
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
    ).simulated_by(gate=gates.added),
    define_mistake(
        "gate_beside_one",
        "The output of the heads is added to the gated output, so the gate closes nothing.",
    ).simulated_by(gate=with_changed_gate(lambda t: 1 + t)),
    define_mistake(
        "gate_of_what_is_attended",
        "The gate is computed from the output of the heads; it should be computed from the input "
        "token.",
        "sigmoid",
    ).simulated_by(gate=gates.made_of_context),
    define_mistake(
        "gate_of_the_queries",
        "The gate is the sigmoid of the queries: the gate's own layer is not used.",
        "sigmoid",
    ).simulated_by(gate=gates.made_by_queries),
    define_mistake(
        "one_gate_for_each_head",
        "All numbers of a head have one gate; each should have its own.",
        "mean | sigmoid",
    ).simulated_by(
        {"gate": gates.one_for_each_head(lambda t: t.mean(-1, keepdim=True))},
        {"gate": gates.one_for_each_head(lambda t: t[..., :1])},
        {"gate": gates.one_for_each_head(lambda t: t.sum(-1, keepdim=True))},
    ),
    define_mistake(
        "one_gate_for_all_heads",
        "The gate of one head is used for all of them; each should have its own.",
        "sigmoid",
        needs=Capability.HEADS,
    ).simulated_by(
        {"gate": gates.one_for_each_head(lambda t: t[..., :1, :])},
        {"gate": gates.one_for_each_head(lambda t: t.mean(-2, keepdim=True))},
    ),
    define_mistake(
        "gate_of_other_columns",
        "The columns of the gate do not match the columns of the heads that it multiplies.",
        "sigmoid | reshape",
        needs=Capability.HEADS,
    ).simulated_by(
        {"gate": gates.heads_in_turn},
        {"gate": with_changed_gate(lambda t: t.flip(-1))},
    ),
    define_mistake(
        "gate_of_another_token",
        "The gate belongs to another token than the output that it multiplies.",
        "flip | mean | sigmoid",
    ).simulated_by(
        {"gate": with_changed_gate(lambda t: t[:, :1])},
        {"gate": with_changed_gate(lambda t: t[:, -1:])},
        {"gate": with_changed_gate(lambda t: t.roll(1, 1))},
        {"gate": with_changed_gate(lambda t: t.mean(1, keepdim=True))},
    ),
    define_rare_mistake(
        "gate_rounded", "The gate is open or closed, and nothing between.", "round | last compare"
    ).simulated_by(
        {"gate": with_changed_gate(torch.round)},
        {"gate": with_gate(lambda s: (gates.ask(s) > 0).to(s.merged.dtype))},
    ),
)
