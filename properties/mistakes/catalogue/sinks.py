"""Mistakes about sinks, the scores that take a share of the weights and have no value."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import PipelineState, StepOverrides, softmax_with_sinks

Change = Callable[[PipelineState, Tensor], Tensor]
"""changes the sinks of all heads"""


def _get_sinks(s: PipelineState) -> Tensor:
    if s.p.sinks is None:
        raise ValueError("there are no sinks")
    return s.p.sinks


def _weigh(s: PipelineState, sinks: Tensor) -> Tensor:
    """Return the weights of the keys, followed by the weights of the sinks."""
    return softmax_with_sinks(s.masked_scores, sinks)


def without_sinks(s: PipelineState) -> Tensor:
    return torch.softmax(s.masked_scores, dim=-1)


def with_changed_sinks(change: Change) -> Callable[[PipelineState], Tensor]:
    """Use other sinks than those of the heads."""
    return lambda s: _weigh(s, change(s, _get_sinks(s)))[..., :-1]


def renormalised(extra: float) -> Callable[[PipelineState], Tensor]:
    """Divide the weights by their sum, plus a number, after the sinks' weights are cut off."""

    def normalise(s: PipelineState) -> Tensor:
        kept = _weigh(s, _get_sinks(s))[..., :-1]
        return kept / (kept.sum(-1, keepdim=True) + extra)

    return normalise


def row_maximum(s: PipelineState) -> Tensor:
    return s.masked_scores.amax(-1, keepdim=True)


def with_denominator_plus(
    extra: Callable[[Tensor], Tensor], top: Callable[[PipelineState], Tensor] = row_maximum
) -> Callable[[PipelineState], Tensor]:
    """Add something other than the sinks' exponentials to the sum of the exponentials."""

    def normalise(s: PipelineState) -> Tensor:
        exponentials = (s.masked_scores - top(s)).exp()
        added = extra(_get_sinks(s)).view(-1, 1, 1)
        return exponentials / (exponentials.sum(-1, keepdim=True) + added)

    return normalise


def kept_in_place_of_first_key(s: PipelineState) -> Tensor:
    """Cut off the first column instead of the last: every weight moves to the previous key."""
    return _weigh(s, _get_sinks(s))[..., 1:]


def given_to(key: int) -> Callable[[PipelineState], Tensor]:
    """Give the sinks' share to one key."""

    def normalise(s: PipelineState) -> Tensor:
        weights = _weigh(s, _get_sinks(s))
        kept = weights[..., :-1].clone()
        kept[..., key] += weights[..., -1]
        return kept

    return normalise


def hidden_from_first_query(s: PipelineState) -> Tensor:
    weights = _weigh(s, _get_sinks(s))[..., :-1]
    return torch.cat([without_sinks(s)[..., :1, :], weights[..., 1:, :]], dim=-2)


def multiplied_by_what_is_left(s: PipelineState) -> Tensor:
    """Multiply the weights a second time by the share that the sinks leave."""
    weights = _weigh(s, _get_sinks(s))
    return weights[..., :-1] * (1 - weights[..., -1:])


def _weigh_again(s: PipelineState, weights: Tensor, hide: bool) -> Tensor:
    """Return weights as scores of a second softmax; hidden ones are hidden again, or are 0."""
    hidden = None if s.visible is None or not hide else ~s.visible
    return weights if hidden is None else weights.masked_fill(hidden, -math.inf)


def softmax_after_sinks(hide: bool) -> Callable[[PipelineState], Tensor]:
    """Take a softmax of the weights that remain after the sinks' weights are cut off."""

    def normalise(s: PipelineState) -> Tensor:
        kept = _weigh(s, _get_sinks(s))[..., :-1]
        return torch.softmax(_weigh_again(s, kept, hide), dim=-1)

    return normalise


def softmax_before_sinks(hide: bool) -> Callable[[PipelineState], Tensor]:
    """Take a softmax of the scores before the sinks are appended."""

    def normalise(s: PipelineState) -> Tensor:
        scores = _weigh_again(s, without_sinks(s), hide)
        return softmax_with_sinks(scores, _get_sinks(s))[..., :-1]

    return normalise


def softmax_twice_with_sinks(hide: bool) -> Callable[[PipelineState], Tensor]:
    """Take two softmaxes, one after the other, of the scores and the sinks."""

    def normalise(s: PipelineState) -> Tensor:
        weights = _weigh(s, _get_sinks(s))
        again = _weigh_again(s, weights[..., :-1], hide)
        return torch.softmax(torch.cat([again, weights[..., -1:]], dim=-1), dim=-1)[..., :-1]

    return normalise


def beside(join: Callable[[Tensor, Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Combine the weights of a softmax with sinks and of a softmax without sinks."""
    return lambda s: join(_weigh(s, _get_sinks(s))[..., :-1], without_sinks(s))


def _with_denominator_plus(extra: Callable[[Tensor], Tensor]) -> tuple[StepOverrides, ...]:
    """Add to the sum of exponentials, relative to a maximum with or without a gradient."""
    tops = (row_maximum, lambda s: row_maximum(s).detach())
    return tuple({"normalise": with_denominator_plus(extra, top)} for top in tops)


SINKS = require(
    Capability.SINKS,
    define_mistake(
        "sinks_without_effect",
        "The sinks take nothing: the weights of each query still sum to one.",
    ).simulated_by(
        {"normalise": without_sinks},
        *({"normalise": renormalised(n)} for n in (0.0, 1e-5, 1e-6, 1e-8, 1e-9, 1e-10, 1e-12)),
    ),
    define_mistake(
        "sinks_scaled",
        "The sinks are divided by the root of {width}, as the scores are; they should not be.",
    ).simulated_by(normalise=with_changed_sinks(lambda s, t: t * s.inputs.scale)),
    define_mistake(
        "sinks_negated", "The sinks have the wrong sign: a high one takes little."
    ).simulated_by(normalise=with_changed_sinks(lambda s, t: -t)),
    define_mistake(
        "one_sink_for_all_heads",
        "All heads have the same sink; each should have its own.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"normalise": with_changed_sinks(lambda s, t: t[:1].expand_as(t))},
        {"normalise": with_changed_sinks(lambda s, t: t[-1:].expand_as(t))},
        {"normalise": with_changed_sinks(lambda s, t: t.mean().expand_as(t))},
        {"normalise": with_changed_sinks(lambda s, t: t.sum().expand_as(t))},
        {"normalise": with_changed_sinks(lambda s, t: t.logsumexp(0).expand_as(t))},
        {"normalise": with_changed_sinks(lambda s, t: t.amax().expand_as(t))},
    ),
    define_mistake(
        "sinks_of_other_heads",
        "The sinks are in another order than the heads: head 0 should have the first one.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"normalise": with_changed_sinks(lambda s, t: t.flip(0))},
        {"normalise": with_changed_sinks(lambda s, t: t.roll(1, 0))},
        {"normalise": with_changed_sinks(lambda s, t: t.roll(-1, 0))},
    ),
    define_mistake(
        "sinks_of_zero",
        "The sinks are not used: 1 is added to the sum of the exponentials, as by sinks of 0.",
    ).simulated_by(
        {"normalise": with_changed_sinks(lambda s, t: 0 * t)},
        *_with_denominator_plus(torch.ones_like),
    ),
    define_mistake(
        "sinks_not_exponentiated",
        "The sinks themselves are added to the sum of the exponentials, not their exponentials.",
    ).simulated_by(
        {"normalise": with_changed_sinks(lambda s, t: t.log())},
        *_with_denominator_plus(lambda t: t),
    ),
    define_mistake(
        "sinks_beside_the_maximum",
        "Each row's largest score is subtracted from the scores, and not from the sink.",
    ).simulated_by(*_with_denominator_plus(torch.exp)),
    define_mistake(
        "sinks_counted_for_every_key",
        "The sink counts once for every key; it should count once for each query.",
    ).simulated_by(
        normalise=lambda s: _weigh(s, _get_sinks(s) + math.log(s.inputs.keys))[..., :-1]
    ),
    define_mistake(
        "first_key_cut_off",
        "Of the weights with the sink's, the first key's is cut off and not the sink's, "
        "so that each value is multiplied by the weight of the next one.",
    ).simulated_by(normalise=kept_in_place_of_first_key),
    define_mistake(
        "sinks_given_to_a_key",
        "What the sink takes is given to a token; it should be lost.",
    ).simulated_by({"normalise": given_to(0)}, {"normalise": given_to(-1)}),
    define_mistake(
        "sinks_hidden_from_the_first_token",
        "For the first token the sink is hidden; no mask should hide it.",
    ).simulated_by(normalise=hidden_from_first_query),
    define_mistake(
        "weights_multiplied_by_sinks",
        "The weights are multiplied by the sigmoids of the sinks, whatever the scores are.",
    ).simulated_by(
        normalise=lambda s: without_sinks(s) * torch.sigmoid(_get_sinks(s)).view(-1, 1, 1)
    ),
    define_mistake(
        "share_of_the_sinks_kept",
        "The weights are multiplied by the share that the sink takes, not by what it leaves.",
    ).simulated_by(normalise=lambda s: without_sinks(s) * _weigh(s, _get_sinks(s))[..., -1:]),
    define_mistake(
        "two_softmaxes_with_sinks",
        "There are two softmaxes, one over what the other gives; the scores and the sink should go "
        "through one softmax together.",
    ).simulated_by(
        *(
            {"normalise": normalise(hide)}
            for normalise in (
                softmax_after_sinks,
                softmax_before_sinks,
                softmax_twice_with_sinks,
            )
            for hide in (True, False)
        )
    ),
    define_mistake(
        "softmax_beside_sinks",
        "Beside the softmax with the sinks there is one of the scores alone, and both count; only "
        "the one with the sinks should.",
    ).simulated_by(
        {"normalise": beside(torch.add)},
        {"normalise": beside(lambda one, other: (one + other) / 2)},
        {"normalise": beside(torch.mul)},
        {"normalise": lambda s: without_sinks(s) - _weigh(s, _get_sinks(s))[..., -1:]},
    ),
    define_mistake(
        "share_of_the_sinks_taken_twice",
        "The weights are multiplied by what the sink leaves once more; the softmax with the sink "
        "has taken its share already.",
    ).simulated_by(normalise=multiplied_by_what_is_left),
    define_rare_mistake(
        "sinks_added_to_weights",
        "The sinks are added to the weights, after the softmax.",
    ).simulated_by(normalise=lambda s: without_sinks(s) + _get_sinks(s).view(-1, 1, 1)),
    define_rare_mistake(
        "sinks_changed",
        "The sinks do not count as they are: they go through a function first.",
    ).simulated_by(
        {"normalise": with_changed_sinks(lambda s, t: t.relu())},
        {"normalise": with_changed_sinks(lambda s, t: t.abs())},
        {"normalise": with_changed_sinks(lambda s, t: t.sigmoid())},
        {"normalise": with_changed_sinks(lambda s, t: t.tanh())},
        {"normalise": with_changed_sinks(lambda s, t: t.exp())},
        {"normalise": with_changed_sinks(lambda s, t: t.softmax(0))},
        {"normalise": with_changed_sinks(lambda s, t: 2 * t)},
    ),
)
