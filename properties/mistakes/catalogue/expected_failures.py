"""Groups of properties that fail together, and their messages."""

from headcheck.properties.families import (
    contract,
    device,
    dropout,
    dropout_sizes,
    dropped_pairs,
    gradients,
    half_positions,
    history,
    list_properties,
    masking,
    precision,
    purity,
    results,
    sizes,
    training,
)

HISTORY = (
    *list_properties(history),
    sizes.every_length_may_follow_every_other,
    purity.evaluation_is_repeatable,
    training.a_weight_written_alone_is_used_at_once,
    training.what_was_trained_is_used,
)
KEPT = (
    history.earlier_calls_do_not_matter,
    history.the_first_call_does_not_matter,
    history.no_order_of_events_matters,
    sizes.every_length_may_follow_every_other,
    masking.the_mask_is_not_remembered,
)
SIZES = (
    sizes.every_size_is_right,
    sizes.a_long_sequence_is_right_too,
    sizes.a_thousand_tokens_are_right_too,
    sizes.many_heads_are_right_too,
    sizes.wide_heads_are_right_too,
    gradients.gradients_are_right_at_every_size,
)
COPIES = (
    purity.its_state_dict_carries_everything,
    purity.a_deep_copy_gives_the_same_output,
    purity.a_pickled_module_gives_the_same_output,
)
SHAPES = (
    contract.the_output_has_the_right_shape,
    contract.a_batch_of_one_stays_a_batch,
    contract.an_axis_of_length_one_stays,
    results.every_length_up_to_the_context_works,
)
HALVES = (
    precision.bfloat16_runs,
    precision.bfloat16_is_as_exact_as_plain_torch,
    half_positions.bfloat16_hides_the_future_of_long_sequences,
    precision.float16_is_as_exact_as_plain_torch,
)
DTYPES = (
    precision.it_computes_in_float64,
    precision.it_takes_float32_as_built,
    device.it_moves_to_another_dtype,
    dropped_pairs.no_two_weights_are_dropped_together,
    *HALVES,
)
DROPPING = (
    *list_properties(dropout),
    *list_properties(dropout_sizes),
    *list_properties(dropped_pairs),
)
LENGTHS = r"^(Runtime|Index|Value)Error: .*(size|shape|expand|subscript|dimension)"
