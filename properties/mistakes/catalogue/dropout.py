"""Mistakes in dropout, recognised by which weights are dropped rather than by a pipeline.

Dropout is random, so no answer can be computed in advance.
`properties.mistakes.recognisers.dropout` examines every recovered weight and names the mistake that
the weights show.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_mistake
from headcheck.properties.mistakes.pipeline import (
    Dropping,
    Pipeline,
    PipelineState,
    QKVTensors,
    map_result,
)

Change = Callable[[Tensor, float], Tensor]
"""returns a tensor after dropout at a rate"""


def change_result(step: str, change: Change) -> Dropping:
    """Change the result of a step, in training and in evaluation alike."""

    def put(pipeline: Pipeline, rate: float, training: bool) -> Pipeline:
        compute = getattr(pipeline, step)
        return pipeline.override(
            {step: lambda s: map_result(lambda t: change(t, rate), compute(s))}
        )

    return put


def in_training(dropping: Dropping, otherwise: Dropping | None = None) -> Dropping:
    """Apply this dropout only in training, and another or none in evaluation."""

    def put(pipeline: Pipeline, rate: float, training: bool) -> Pipeline:
        chosen = dropping if training else otherwise
        return pipeline if chosen is None else chosen(pipeline, rate, training)

    return put


def drop(t: Tensor, rate: float) -> Tensor:
    return F.dropout(t, rate)


def draw_kept(t: Tensor, rate: float, *shared: int) -> Tensor:
    """Draw ones for kept elements and zeros for dropped ones; shared dimensions have length one."""
    shape = [1 if dim in shared else size for dim, size in enumerate(t.shape)]
    return torch.empty(shape, dtype=t.dtype, device=t.device).bernoulli_(1 - rate)


def drop_together(*dims: int) -> Change:
    """Drop all weights along these dimensions together."""
    return lambda t, rate: t * draw_kept(t, rate, *dims) / (1 - rate)


def drop_unscaled(t: Tensor, rate: float) -> Tensor:
    return t * draw_kept(t, rate)


def drop_renormalised(t: Tensor, rate: float) -> Tensor:
    kept = drop_unscaled(t, rate)
    return kept / kept.sum(dim=-1, keepdim=True).clamp_min(1e-12)


def at_rate(other: float, instead: float) -> Change:
    """Drop at the rate `other`, or at `instead` if the statement asks for the rate `other`."""
    return lambda t, rate: drop(t, instead if rate == other else other)


def _drop_values(pipeline: Pipeline, rate: float, training: bool) -> Pipeline:
    def assign(s: PipelineState) -> QKVTensors:
        q, k, v = pipeline.assign(s)
        return q, k, drop(v, rate)

    return pipeline.override({"assign": assign})


never: Dropping = in_training(change_result("use", lambda weights, rate: weights))
on_weights: Dropping = in_training(change_result("use", drop))
"""dropout on the weights, as the statement requires"""
on_scores: Dropping = in_training(change_result("scale", drop))
on_masked_scores: Dropping = in_training(change_result("hide", drop))
"""dropout on masked scores, which makes NaN of −∞ times 0"""
on_input: Dropping = in_training(change_result("see", drop))
on_values: Dropping = in_training(_drop_values)
on_context: Dropping = in_training(change_result("merge", drop))
on_output: Dropping = in_training(change_result("finish", drop))


CALLED = "projection:[dD]rop | dropout:^F | dropout:^(?!.*nn.Dropout)"
"""patterns for the line that applies dropout, rather than the line that makes the layer"""
OTHER = "dropout:^(?!.*(nn.Dropout|softmax|weights|attn|probs))"
"""patterns for a line that applies dropout to something whose name does not suggest weights"""

IN_EVALUATION = define_mistake(
    "dropout_in_evaluation",
    "Dropout acts in evaluation, too: it has to follow self.training, or to be a layer that eval() "
    "reaches.",
    "kernel:dropout_p=(?!.*training) | dropout:^(?!.*(training|nn.Dropout)) | "
    "dropout:^(?!.*nn.Dropout) | kernel",
).dropping_by(change_result("use", drop))
SCALED_IN_EVALUATION = define_mistake(
    "dropout_scaled_in_evaluation",
    "Weights are scaled down in evaluation; PyTorch's dropout scales them up in training instead.",
    "dropout | times",
).dropping_by(
    in_training(
        change_result("use", drop_unscaled),
        change_result("use", lambda weights, rate: weights * (1 - rate)),
    )
)
NEVER = define_mistake(
    "dropout_never", "Dropout never acts: in training no weight is dropped.", "unused:drop"
).dropping_by(never)
NOT_ASKED_FOR = define_mistake(
    "dropout_not_asked_for",
    "Dropout acts, which nobody asked for.",
    "dropout | kernel",
).dropping_by(
    in_training(change_result("use", lambda weights, _: drop(weights, 0.5))),
    in_training(change_result("use", lambda weights, _: drop(weights, 0.1))),
    change_result("use", lambda weights, _: drop(weights, 0.5)),
    change_result("use", lambda weights, _: drop(weights, 0.1)),
)
NOT_RESCALED = define_mistake(
    "dropout_not_rescaled",
    "The weights that dropout keeps are not scaled up by 1/(1 − p).",
    "dropout | times",
).dropping_by(in_training(change_result("use", drop_unscaled)))
KEEPS_P = define_mistake(
    "dropout_keeps_p",
    "The rate of dropout is taken for the probability of staying.",
    "dropout | times",
).dropping_by(in_training(change_result("use", lambda w, rate: drop(w, 1 - rate))))
SCALED_BY_P = define_mistake(
    "dropout_scaled_by_p",
    "The weights that dropout keeps are divided by p instead of 1 − p.",
    "dropout | divide",
).dropping_by(in_training(change_result("use", lambda w, p: drop_unscaled(w, p) / p)))
TWICE = define_mistake(
    "dropout_twice", "Dropout is applied twice to the weights.", "last dropout"
).dropping_by(in_training(change_result("use", lambda w, rate: drop(drop(w, rate), rate))))
OTHER_RATE = define_mistake(
    "dropout_of_another_rate",
    "Dropout has a fixed rate of its own, whatever the argument says.",
    "dropout:\\d | dropout",
).dropping_by(
    in_training(change_result("use", at_rate(0.5, instead=0.1))),
    in_training(change_result("use", at_rate(0.2, instead=0.5))),
)
RENORMALISED = define_mistake(
    "dropout_renormalised",
    "After dropping, each row is made to sum to one again instead of being scaled by 1/(1 − p).",
    "last sum | projection:[dD]rop | dropout:^F | dropout",
).dropping_by(in_training(change_result("use", drop_renormalised)))
BEFORE_SOFTMAX = define_mistake(
    "dropout_before_softmax",
    "Dropout acts on the scores, before the softmax: a score that is set to 0 still gets weight.",
    CALLED,
).dropping_by(on_scores, on_masked_scores)
NOT_ON_WEIGHTS = define_mistake(
    "dropout_not_on_weights",
    "Dropout acts on something other than the attention weights, such as values or output: "
    "single coordinates vanish.",
    f"{OTHER} | {CALLED}",
).dropping_by(on_values, on_context, on_output, on_input)
WHOLE_ROWS = define_mistake(
    "dropout_of_whole_rows",
    "Dropout takes all weights of a query, or of a whole head, away at once; it is to draw for "
    "each weight.",
).dropping_by(
    in_training(change_result("use", drop_together(3))),
    in_training(change_result("use", drop_together(2, 3))),
)
WHOLE_KEYS = define_mistake(
    "dropout_of_whole_keys",
    "Dropout takes a key away from all queries at once; it is to draw for each weight.",
    CALLED,
).dropping_by(in_training(change_result("use", drop_together(2))))
SHARED_BY_BATCH = define_mistake(
    "dropout_shared_by_batch", "All sequences of a batch drop the same weights.", CALLED
).dropping_by(in_training(change_result("use", drop_together(0))))
SHARED_BY_HEADS = define_mistake(
    "dropout_shared_by_heads", "All heads drop the same weights.", CALLED
).dropping_by(in_training(change_result("use", drop_together(1))))

DROPOUT: tuple[Mistake, ...] = (
    IN_EVALUATION,
    SCALED_IN_EVALUATION,
    NEVER,
    NOT_ASKED_FOR,
    NOT_RESCALED,
    KEEPS_P,
    SCALED_BY_P,
    TWICE,
    OTHER_RATE,
    RENORMALISED,
    BEFORE_SOFTMAX,
    NOT_ON_WEIGHTS,
    WHOLE_ROWS,
    WHOLE_KEYS,
    SHARED_BY_BATCH,
    SHARED_BY_HEADS,
)
