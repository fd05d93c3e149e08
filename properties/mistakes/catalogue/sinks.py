"""Mistakes about sinks, the scores that take a share of the weights and have no value."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.mistakes.steps import sinks
from headcheck.properties.mistakes.steps.sinks import with_changed_sinks, with_denominator_plus


def _with_denominator_plus(extra: Callable[[Tensor], Tensor]) -> tuple[StepOverrides, ...]:
    """Add to the sum of exponentials, relative to a maximum with or without a gradient."""
    tops = (sinks.row_maximum, sinks.cut_row_maximum)
    return tuple({"normalise": with_denominator_plus(extra, top)} for top in tops)


SINKS = require(
    Capability.SINKS,
    define_mistake(
        "sinks_without_effect",
        "The sinks take nothing: the weights of each query still sum to one.",
    ).simulated_by({"normalise": sinks.without_sinks}, {"normalise": sinks.renormalised(0.0)}),
    define_rare_mistake(
        "sinks_given_back",
        "When the sink's weight is cut off, the others are divided by their sum, which gives back "
        "what the sink took.",
        "divide:sum | sum",
    ).simulated_by(
        *({"normalise": sinks.renormalised(n)} for n in (1e-5, 1e-6, 1e-8, 1e-9, 1e-10, 1e-12))
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
        "sum | exp | softmax",
    ).simulated_by(
        {"normalise": with_changed_sinks(lambda s, t: 0 * t)},
        *_with_denominator_plus(torch.ones_like),
    ),
    define_mistake(
        "sinks_not_exponentiated",
        "The sinks themselves are added to the sum of the exponentials, not their exponentials.",
        "sum | exp",
    ).simulated_by(
        {"normalise": with_changed_sinks(lambda s, t: t.log())},
        *_with_denominator_plus(lambda t: t),
    ),
    define_mistake(
        "sinks_beside_the_maximum",
        "Each row's largest score is subtracted from the scores, and not from the sink.",
        "max | exp",
    ).simulated_by(*_with_denominator_plus(torch.exp)),
    define_mistake(
        "sinks_counted_for_every_key",
        "The sink counts once for every key; it should count once for each query.",
        "softmax | sum",
    ).simulated_by(normalise=sinks.counted_for_every_key),
    define_mistake(
        "first_key_cut_off",
        "Of the weights with the sink's, the first key's is cut off and not the sink's, "
        "so that each value is multiplied by the weight of the next one.",
        "softmax",
    ).simulated_by(normalise=sinks.kept_in_place_of_first_key),
    define_mistake(
        "sinks_given_to_a_key",
        "What the sink takes is given to a token; it should be lost.",
        "softmax",
    ).simulated_by({"normalise": sinks.given_to(0)}, {"normalise": sinks.given_to(-1)}),
    define_mistake(
        "sinks_hidden_from_the_first_token",
        "For the first token the sink is hidden; no mask should hide it.",
    ).simulated_by(normalise=sinks.hidden_from_first_query),
    define_mistake(
        "weights_multiplied_by_sinks",
        "The weights are multiplied by the sigmoids of the sinks, whatever the scores are.",
        "sigmoid | softmax",
    ).simulated_by(normalise=sinks.multiplied_by_sigmoids),
    define_mistake(
        "share_of_the_sinks_kept",
        "The weights are multiplied by the share that the sink takes, not by what it leaves.",
        "sigmoid | softmax",
    ).simulated_by(normalise=sinks.multiplied_by_what_is_lost),
    define_mistake(
        "two_softmaxes_with_sinks",
        "There are two softmaxes, one over what the other gives; the scores and the sink should go "
        "through one softmax together.",
        "last softmax",
    ).simulated_by(
        *(
            {"normalise": normalise(hide)}
            for normalise in (
                sinks.softmax_after_sinks,
                sinks.softmax_before_sinks,
                sinks.softmax_twice_with_sinks,
            )
            for hide in (True, False)
        )
    ),
    define_mistake(
        "softmax_beside_sinks",
        "Beside the softmax with the sinks there is one of the scores alone, and both count; only "
        "the one with the sinks should.",
        "last softmax",
    ).simulated_by(
        {"normalise": sinks.beside(torch.add)},
        {"normalise": sinks.beside(lambda one, other: (one + other) / 2)},
        {"normalise": sinks.beside(torch.mul)},
        {"normalise": sinks.less_the_share_of_sinks},
    ),
    define_mistake(
        "share_of_the_sinks_taken_twice",
        "The weights are multiplied by what the sink leaves once more; the softmax with the sink "
        "has taken its share already.",
        "last times | softmax",
    ).simulated_by(normalise=sinks.multiplied_by_what_is_left),
    define_rare_mistake(
        "sinks_added_to_weights",
        "The sinks are added to the weights, after the softmax.",
        "softmax",
    ).simulated_by(normalise=sinks.added_to_weights),
    define_rare_mistake(
        "sinks_changed",
        "The sinks do not count as they are: they go through a function first.",
        "relu | sigmoid | softmax",
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
