"""Mistakes in learned numbers that are added to scores by the distance."""

from headcheck.properties.contracts.contract import Positions
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import relative

RELATIVE_BIAS = require(
    Positions.RELATIVE,
    define_mistake(
        "relative_numbers_not_added",
        "The learned numbers for distances are not added to the scores.",
    ).simulated_by(adjust=relative.not_added),
    define_mistake(
        "distance_counted_the_other_way",
        "Distances have the wrong sign: a key's position minus the query's is negative for earlier "
        "keys.",
        "arange",
    ).simulated_by(adjust=relative.reversed_in_time),
    define_mistake(
        "buckets_of_the_other_sides",
        "The buckets are for the wrong sides: later keys have buckets of their own only where they "
        "can be seen.",
        "compare | arange",
    ).simulated_by(adjust=relative.of_the_other_sides),
    define_mistake(
        "buckets_without_logarithms",
        "Every distance has a bucket of its own up to the last; the buckets of far distances "
        "should be wider, by the logarithm.",
        "arange",
    ).simulated_by(adjust=relative.without_logarithms),
    define_mistake(
        "relative_numbers_scaled",
        "The learned numbers are scaled with the scores; they are added after the scale.",
        "scale | scores",
    ).simulated_by(adjust=relative.scaled_too),
    define_rare_mistake(
        "relative_numbers_of_the_first_head",
        "All heads get the learned numbers of the first head.",
        "index",
    ).simulated_by(adjust=relative.of_the_first_head),
)
