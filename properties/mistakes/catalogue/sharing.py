"""Mistakes about keys and values that several heads share."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import sharing
from headcheck.properties.mistakes.steps.sharing import (
    always_shared,
    in_turn,
    mean_for_all,
    one_for_all,
    shared,
)

SHARING = require(
    Capability.GROUPED,
    define_mistake(
        "keys_and_values_in_turn",
        "Heads take the heads of keys and values in turn, head 0 the first, head 1 the next one; "
        "neighbouring heads should share them.",
        "repeat:\\.(repeat|tile)\\( | repeat | reshape",
    ).simulated_by(share=shared(in_turn, in_turn)),
    define_mistake(
        "keys_in_turn",
        "Heads take the heads of keys in turn, but neighbours share those of values: "
        "neighbours share both.",
        "repeat:\\.(repeat|tile)\\( | repeat | reshape",
    ).simulated_by(share=shared(key=in_turn)),
    define_mistake(
        "values_in_turn",
        "Heads take the heads of values in turn, but neighbours share those of keys: "
        "neighbours share both.",
        "repeat:\\.(repeat|tile)\\( | repeat | reshape",
    ).simulated_by(share=shared(value=in_turn)),
    define_mistake(
        "one_key_head_for_all",
        "All heads use the keys and the values of the same head.",
        "repeat | index::1\\b | reshape",
    ).simulated_by(
        {"share": shared(one_for_all(0), one_for_all(0))},
        {"share": shared(one_for_all(-1), one_for_all(-1))},
        {"share": always_shared(one_for_all(0), one_for_all(0))},
        {"share": always_shared(one_for_all(-1), one_for_all(-1))},
    ),
    define_mistake(
        "keys_and_values_averaged_over_heads",
        "Keys and values are averaged over their heads, so that all heads use the same.",
        "mean | repeat",
    ).simulated_by(
        {"share": shared(mean_for_all, mean_for_all)},
        {"share": always_shared(mean_for_all, mean_for_all)},
    ),
    define_rare_mistake(
        "keys_averaged_over_heads",
        "Keys are averaged over their heads, so that all heads use the same.",
        "mean | repeat",
    ).simulated_by({"share": shared(key=mean_for_all)}, {"share": always_shared(key=mean_for_all)}),
    define_rare_mistake(
        "values_averaged_over_heads",
        "Values are averaged over their heads, so that all heads use the same.",
        "mean | repeat",
    ).simulated_by(
        {"share": shared(value=mean_for_all)}, {"share": always_shared(value=mean_for_all)}
    ),
    define_rare_mistake(
        "queries_averaged_in_groups",
        "The queries of a group are averaged, so that its heads give the same: only keys and "
        "values are shared.",
        "mean | scores",
    ).simulated_by(share=sharing.queries_averaged),
    define_rare_mistake(
        "groups_merged_in_turn",
        "The heads are merged in another order than they were split: first one of every group, "
        "then the next ones.",
        "last reshape | last transpose",
    ).simulated_by(merge=sharing.groups_merged_in_turn),
)
