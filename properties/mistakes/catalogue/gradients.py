"""Mistakes with right outputs and wrong gradients: a part is cut from the graph."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue import differential, gates, latents, sinks
from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_rare_mistake, require
from headcheck.properties.mistakes.catalogue.numbers import change_after, change_returned
from headcheck.properties.mistakes.pipeline import CORRECT, PipelineState, StepOverrides
from headcheck.properties.mistakes.steps import transformer_block as block


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


def cut_heads(kept: int) -> StepOverrides:
    """Return the override that lets gradients through the first heads only."""

    def mix(s: PipelineState) -> Tensor:
        t = CORRECT.mix(s)
        return torch.cat([t[:, :kept], t[:, kept:].detach()], dim=1)

    return {"mix": mix}


CUT = "only detach"

OF_A_BLOCK: Sequence[Mistake] = (
    define_rare_mistake(
        "attention_detached",
        "No gradient flows back through attention: its output is detached before it is added.",
        CUT,
    ).simulated_by(add=block.in_block(lambda s: s.seen[0] + s.attended.detach())),
    define_rare_mistake(
        "feed_forward_detached",
        "No gradient flows back through the feed-forward: its output is detached before it is "
        "added.",
        CUT,
    ).simulated_by(close=block.in_block(lambda s: s.added + s.forwarded.detach())),
    define_rare_mistake(
        "residual_detached",
        "No gradient flows through a residual: the tensor that it adds is detached.",
        CUT,
    ).simulated_by(
        {"add": block.cut_residual},
        {"close": block.cut_second_residual},
        {"add": block.cut_residual, "close": block.cut_second_residual},
    ),
    define_rare_mistake(
        "norm_statistics_detached",
        "No gradient flows through mean and variance of a norm: they are detached.",
        CUT,
    ).simulated_by(*block.for_both_or_one(block.cut_statistics)),
)

GRADIENTS: Sequence[Mistake] = (
    define_rare_mistake(
        "output_detached",
        "No gradient leaves the output: the result is detached, or computed without gradients.",
        CUT,
        unless=Capability.BLOCK,
    ).simulated_by(change_returned(0, cut), change_after("finish", cut)),
    define_rare_mistake(
        "returned_weights_detached",
        "No gradient flows through the returned weights: they are detached.",
        CUT,
        unless=Capability.LOGSUMEXP,
    ).simulated_by(change_returned(1, cut)),
    define_rare_mistake(
        "logsumexp_detached",
        "No gradient flows through the returned log-sum-exp: it is detached.",
        CUT,
        needs=Capability.LOGSUMEXP,
    ).simulated_by(change_returned(1, cut)),
    define_rare_mistake(
        "context_detached",
        "No gradient flows from the output layer back to the heads: their output is detached.",
        CUT,
    ).simulated_by(change_after("merge", cut)),
    define_rare_mistake(
        "weights_detached",
        "No gradient flows through the attention weights: queries and keys are never trained.",
        CUT,
    ).simulated_by(change_after("normalise", cut), {"mix": average_by_cut_weights}),
    define_rare_mistake(
        "keys_detached", "No gradient flows through the keys: they are detached.", CUT
    ).simulated_by(cut_role(1)),
    define_rare_mistake(
        "values_detached", "No gradient flows through the values: they are detached.", CUT
    ).simulated_by(cut_role(2)),
    define_rare_mistake(
        "sinks_detached",
        "No gradient flows to the sinks: they are detached.",
        CUT,
        needs=Capability.SINKS,
    ).simulated_by(normalise=sinks.cut),
    define_rare_mistake(
        "gate_detached",
        "No gradient flows through the gate: its layer is never trained.",
        CUT,
        needs=Capability.GATED,
    ).simulated_by(gate=gates.cut),
    define_rare_mistake(
        "lambdas_detached",
        "No gradient flows to the lambdas: they are detached.",
        CUT,
        needs=Capability.DIFFERENTIAL,
    ).simulated_by(subtract=differential.cut),
    *require(Capability.BLOCK, *OF_A_BLOCK),
    define_rare_mistake(
        "latents_detached",
        "No gradient flows to the layer that makes the latents: they are detached.",
        CUT,
        needs=Capability.LATENT,
    ).simulated_by(project=latents.with_latents(cut, cut)),
    define_rare_mistake(
        "turned_keys_detached",
        "No gradient flows to the layer of the rotated keys: they are detached.",
        CUT,
        needs=Capability.BESIDE,
    ).simulated_by(append=latents.detach_turned),
    define_rare_mistake(
        "divisor_detached",
        "No gradient flows through the divisor: it is detached.",
        CUT,
        needs=Capability.FEATURES,
    ).simulated_by(
        normalise=lambda s: s.masked_scores / s.masked_scores.sum(-1, keepdim=True).detach()
    ),
    define_rare_mistake(
        "input_detached",
        "No gradient reaches the input: it is detached before it is used.",
        CUT,
    ).simulated_by(change_after("see", cut)),
    define_rare_mistake(
        "later_heads_detached",
        "No gradient flows through the later heads: only the first ones are trained.",
        CUT,
        needs=Capability.HEADS,
    ).simulated_by(cut_heads(1)),
)
