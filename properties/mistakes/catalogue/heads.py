"""Mistakes that involve several heads or several sequences."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import calls, layers, output, scores

HEADS = require(
    Capability.HEADS,
    define_mistake(
        "split_without_transpose",
        "The projections are viewed as (heads, tokens, width), which scrambles heads and tokens: a "
        "view as (tokens, heads, width) comes first, and then the two axes change places.",
    ).simulated_by(split=layers.straight_view),
    define_mistake(
        "split_channel_major",
        "Head h takes every n-th column of the projection instead of a block of neighbours.",
    ).simulated_by(split=layers.every_nth_column),
    define_mistake(
        "merge_without_transpose",
        "The heads are laid one after the other and reshaped without being moved behind the "
        "tokens first, which scrambles them.",
    ).simulated_by({"merge": output.without_transpose}, {"merge": output.viewed_from_the_front}),
    define_mistake(
        "merge_channel_major",
        "The merge puts the same column of all heads side by side instead of whole heads.",
    ).simulated_by(merge=output.channels_first),
    define_mistake(
        "heads_interleaved",
        "The heads are interleaved, in the split and in the merge, instead of lying in blocks.",
    ).simulated_by(split=layers.every_nth_column, merge=output.channels_first),
    define_mistake(
        "split_and_merge_without_transpose",
        "The projections are viewed as (heads, tokens, width), which scrambles heads and tokens, "
        "and are viewed back at the end: pieces of the same token attend to each other.",
    ).simulated_by(split=layers.straight_view, merge=output.without_transpose),
    define_mistake(
        "heads_and_head_dim_exchanged",
        "The number of heads and the width of a head are exchanged.",
    ).simulated_by(
        {
            "split": layers.split_into(lambda s: s.inputs.head_dim),
            "scale": scores.divided_by(lambda s: s.inputs.heads**0.5),
        },
        {"split": layers.split_into(lambda s: s.inputs.head_dim)},
    ),
    define_mistake(
        "one_head",
        "One wide head does everything: the projection is not split.",
    ).simulated_by(
        {
            "split": layers.split_into(lambda s: 1),
            "scale": scores.divided_by(lambda s: s.inputs.d_out**0.5),
        },
        {"split": layers.split_into(lambda s: 1)},
        {
            "split": layers.split_into(lambda s: 1),
            "scale": scores.divided_by(lambda s: s.inputs.d_out**0.5),
            "give": output.returned_weights(output.weights_for_all_heads),
        },
        {
            "split": layers.split_into(lambda s: 1),
            "give": output.returned_weights(output.weights_for_all_heads),
        },
    ),
    define_mistake(
        "attends_over_heads",
        "The heads of a token attend to each other: where queries and keys are multiplied, the "
        "axis of heads is in the place of the tokens.",
    ).simulated_by(
        {"split": layers.heads_behind_tokens, "merge": output.heads_last},
        {
            "split": layers.heads_behind_tokens,
            "permit": scores.causal_of_any_size,
            "merge": output.heads_last,
        },
        {
            "split": layers.heads_behind_tokens,
            "permit": scores.no_mask,
            "merge": output.heads_last,
        },
    ),
    define_rare_mistake(
        "head_slices_overlap",
        "Head i begins at column i instead of i times the width of a head.",
        "index:\\+",
    ).simulated_by(split=layers.overlapping_slices),
    define_rare_mistake(
        "packed_projection_cut_wrongly",
        "The packed projection is not cut into thirds along its last dimension, "
        "so queries, keys and values are mixed up.",
    ).simulated_by(
        {"split": layers.packed_by_view},
        {"split": layers.packed_every_third},
        {"split": layers.packed_by_view_of_each_sequence},
        {"split": layers.packed_by_straight_view},
    ),
    define_rare_mistake(
        "packed_projection_cut_into_heads_first",
        "The packed projection is cut into heads first and each head in three: it holds all "
        "queries, then all keys, then all values.",
    ).simulated_by(split=layers.packed_per_head),
    define_mistake(
        "heads_scored_together",
        "The scores of the heads are summed, so that all heads share one pattern.",
    ).simulated_by(match=scores.summed_over_heads),
    define_rare_mistake("batch_averaged", "The scores are averaged over the batch.").simulated_by(
        match=scores.averaged_over_batch
    ),
    define_rare_mistake(
        "heads_reversed",
        "The heads are put together in reversed order.",
        "index:-1",
    ).simulated_by(
        {"merge": output.heads_reordered(lambda heads: heads[::-1])},
        {
            "merge": output.heads_reordered(lambda heads: heads[::-1]),
            "give": output.returned_weights(lambda s: s.applied_weights.flip(1)),
        },
    ),
    define_mistake(
        "heads_averaged", "The heads are averaged instead of laid side by side.", "mean | stack"
    ).simulated_by(
        {"merge": output.one_head_repeated(lambda t: t.mean(1, keepdim=True))},
        {"merge": output.one_head_alone(lambda t: t.mean(1, keepdim=True))},
        {"merge": output.repeated_columns(lambda t: t.mean(1, keepdim=True))},
    ),
    define_mistake(
        "heads_added", "The heads are added up instead of laid side by side.", "sum | stack"
    ).simulated_by(
        {"merge": output.one_head_alone(lambda t: t.sum(1, keepdim=True))},
        {"merge": output.one_head_repeated(lambda t: t.sum(1, keepdim=True))},
    ),
    define_mistake(
        "first_head_only",
        "Only the first head is used in the output.",
    ).simulated_by(
        {"merge": output.one_head_alone(lambda t: t[:, :1])},
        {"merge": output.only_heads(lambda count: [0])},
    ),
    define_mistake(
        "one_head_repeated",
        "One head is used in place of every head, so all give the same output.",
    )
    .simulated_by(
        {"merge": output.one_head_repeated(lambda t: t[:, :1])},
        {"merge": output.one_head_repeated(lambda t: t[:, -1:])},
    )
    .wrapped_by(calls.tie_heads),
    define_mistake(
        "last_head_only", "Only the last head has a part in the output.", "last return"
    ).simulated_by(
        {"merge": output.one_head_alone(lambda t: t[:, -1:])},
        {"merge": output.only_heads(lambda count: [count - 1])},
    ),
    define_rare_mistake(
        "heads_along_another_dimension",
        "The heads are concatenated along the wrong dimension, not along their columns.",
        "stack",
    ).simulated_by(
        {"merge": output.heads_concatenated_along(1)},
        {"merge": output.heads_concatenated_along(0)},
        {"merge": output.heads_stacked_along(0)},
        {"merge": output.heads_stacked_along(1)},
        {"merge": output.heads_stacked_along(2)},
        {"merge": output.heads_stacked_along(3)},
    ),
)
