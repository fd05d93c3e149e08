"""Mistakes about the divisor of the scores."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import scores

SCALE = require(
    Capability.SOFTMAX,
    define_mistake(
        "scale_not_asked_for",
        "The scores are divided by the root of the width, which this exercise does not ask for.",
        unless=Capability.DIFFERENTIAL,
    ).simulated_by(scale=scores.divided_by(lambda s: s.inputs.width**0.5)),
    define_mistake(
        "no_scale",
        "The scores are not divided by the root of {width}.",
        "scale | kernel:scale | scores",
    ).simulated_by(scale=scores.unscaled),
    define_mistake(
        "scale_without_root",
        "The scores are divided by {width} itself, or twice by its root, instead of once by its "
        "root.",
        "scale | kernel:scale | divide | scores",
    ).simulated_by(scale=scores.divided_by(lambda s: s.inputs.width)),
    define_mistake(
        "scale_multiplied",
        "The scores are multiplied by {width}, or by its root, instead of divided by its root.",
    ).simulated_by(
        {"scale": scores.divided_by(lambda s: s.inputs.width**-0.5)},
        {"scale": scores.divided_by(lambda s: 1 / s.inputs.width)},
    ),
    define_mistake(
        "scale_by_d_out",
        "The scores are divided by the root of the width of all heads together, not of one head.",
        needs=Capability.HEADS,
    ).simulated_by(scale=scores.divided_by(lambda s: s.inputs.d_out**0.5)),
    define_mistake(
        "scale_by_d_in",
        "The scores are divided by the root of the input's width, not by the root of {width}.",
    ).simulated_by(scale=scores.divided_by(lambda s: s.inputs.d_in**0.5)),
    define_mistake(
        "scale_by_tokens",
        "The scores are divided by the root of the number of tokens, not by the root of {width}.",
    ).simulated_by(scale=scores.divided_by(lambda s: s.inputs.tokens**0.5)),
    define_mistake(
        "scale_by_heads",
        "The scores are divided by the root of the number of heads, not by the root of {width}.",
        needs=Capability.HEADS,
    ).simulated_by(scale=scores.divided_by(lambda s: s.inputs.heads**0.5)),
    define_rare_mistake(
        "scale_of_the_example",
        "The scores are divided by a fixed number, which fits one example, instead of the root of "
        "{width}.",
    ).simulated_by(
        {"scale": scores.divided_by(lambda s: 2**0.5)},
        {"scale": scores.divided_by(lambda s: 2)},
        {"scale": scores.divided_by(lambda s: 3**0.5)},
        {"scale": scores.divided_by(lambda s: 8)},
    ),
    define_mistake(
        "scaled_after_softmax",
        "The division by the root of {width} comes after the softmax: the weights no longer sum to "
        "one.",
    ).simulated_by(scale=scores.unscaled, use=lambda s: s.weights * s.inputs.scale),
)
