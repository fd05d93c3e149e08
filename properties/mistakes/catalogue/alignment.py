"""Mistakes in the positions of causal queries if there are more keys than queries."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import alignment

LINE = "triangle | kernel | fill"

ALIGNMENT = require(
    Capability.ALIGNED,
    define_mistake(
        "mask_at_the_top_left",
        "The causal mask begins at the first key: the first query sees that one alone, although "
        "other keys come before it.",
    ).simulated_by(permit=alignment.begun_at(lambda before: 0)),
    define_mistake(
        "earlier_keys_hidden",
        "The keys before the first query are hidden: the queries see only each other.",
    ).simulated_by(permit=alignment.among_themselves),
    define_rare_mistake(
        "mask_in_the_middle",
        "The causal mask lies in the middle of the keys; the last query should be at the last key.",
        LINE,
    ).simulated_by(permit=alignment.begun_at(lambda before: before // 2)),
    define_rare_mistake(
        "mask_too_far_right",
        "The causal mask begins at twice the number of keys that came before.",
        LINE,
    ).simulated_by(permit=alignment.begun_at(lambda before: 2 * before)),
)

OPTION = require(
    Capability.CAUSAL_OPTION,
    define_mistake(
        "always_causal",
        "Later tokens are hidden in every call, even if `causal` is False.",
    ).simulated_by(permit=alignment.always_aligned),
)
