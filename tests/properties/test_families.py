"""Every property says something, accepts what is right, and accuses something wrong."""

import functools
import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from headcheck.exercises import ALL as EXERCISES
from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import list_answers
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_tensors import DTYPES
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.families import ALL, select_for_contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, PropertyGroup
from headcheck.properties.terms.case import Case
from tests.golden import texts
from tests.kinds.bank import KINDS
from tests.library import real_bugs
from tests.submissions import accuse, load_source

# What wrong answers do may make torch warn; that is not what they are accused of.
pytestmark = pytest.mark.filterwarnings("ignore")

BY_NAME = {prop.name: prop for prop in ALL}

LATER = {
    "parameters_and_buffers_are_left_unchanged": "multi_head_attention/drifts",
    "a_single_head_works_like_several": "masked_multi_head/squeezes_single_axes",
    "each_sequence_is_attended_alone": "multi_head_attention/softmax_over_batch",
    "permuting_the_batch_permutes_the_output": "multi_head_attention/first_batch_item_only",
    "it_equals_the_streaming_computation": "multi_head_attention/no_scale",
    "it_equals_torch_s_attention": "multi_head_attention/no_mask",
    "it_equals_torch_s_multi_head_attention": "multi_head_attention/heads_reversed",
    "where_earlier_tokens_stand_counts": "rope/nothing_turned",
    "the_future_is_invisible": "multi_head_attention/large_scores_shrunk",
    "a_prefix_gives_the_same_outputs": "multi_head_attention/mask_only_on_full_context",
    "what_may_be_seen_is_seen": "multi_head_attention/zero_scores_are_hidden",
    "derivatives_reach_only_the_past": "multi_head_attention/no_mask",
    "the_first_token_sees_only_itself": "multi_head_attention/no_mask",
    "the_order_of_the_past_does_not_matter": "multi_head_attention/caches_first_keys",
    "permuting_the_tokens_permutes_the_outputs": "masked_multi_head/causal_without_mask",
    "sequences_keep_their_caches_apart": "kv_cache/cache_kept_in_the_module",
    "the_last_queries_alone_get_the_last_rows": "causal_alignment/torch_s_is_causal",
    "every_block_size_gives_the_same": "online_softmax/short_block_dropped",
    "parts_are_merged_by_their_log_sum_exp": "online_softmax/logsumexp_without_the_maximum",
    "gradients_stay_right_far_above_or_below": "flash_attention/short_queries_dropped_backward",
    "blocked_tokens_change_nothing": "masked_multi_head/mask_first_sequence_only",
    "padding_is_invisible": "padding_mask/mask_ignored",
    "padding_may_stand_on_either_side": "padding_mask/padding_taken_for_last",
    "a_mask_of_ones_is_no_mask": "masked_multi_head/mask_inverted",
    "a_causal_mask_hides_the_future": "masked_multi_head/mask_transposed",
    "what_lies_before_the_window_is_invisible": "sliding_window/no_window",
    "a_window_longer_than_the_sequence_hides_nothing": "sliding_window/long_window_refused",
    "neighbouring_heads_share_keys_and_values": "grouped_query/heads_tiled",
    "equal_tokens_get_equal_outputs": "multi_head_attention/softmax_over_queries",
    "repeating_every_token_changes_nothing": "masked_multi_head/window_of_eight",
    "the_weights_sum_to_one": "multi_head_attention/block_sum_not_rescaled",
    "the_output_lies_between_the_values": "multi_head_attention/softmax_over_queries",
    "without_queries_the_values_are_averaged_evenly": "self_attention_v2/far_tokens_forgotten",
    "the_output_is_linear_in_the_values": "multi_head_attention/residual_added",
    "without_values_nothing_is_left": "masked_multi_head/adds_the_input",
    "the_output_bias_shifts_the_output": "multi_head_attention/out_proj_bias_not_added",
    "a_constant_added_to_all_keys_changes_nothing": "multi_head_attention/scores_softcapped",
    "the_weights_are_a_softmax_of_the_scaled_scores": "multi_head_attention/scale_by_sqrt_d_out",
    "the_weights_are_never_negative": "multi_head_attention/softmax_over_queries",
    "hidden_tokens_get_no_weight": "multi_head_attention/mask_only_on_full_context",
    "the_weights_are_what_the_sinks_leave": "attention_sink/scaled",
    "the_weights_sum_to_what_the_sink_leaves": "attention_sink/sink_forgotten",
    "the_first_token_shares_with_the_sink": "attention_sink/hidden_from_the_first_token",
    "sinks_far_below_the_scores_take_nothing": "attention_sink/one_is_added",
    "sinks_far_above_the_scores_take_all": "attention_sink/given_to_the_first_token",
    "a_constant_added_to_scores_and_sinks_cancels": "attention_sink/negated",
    "each_head_has_a_sink_of_its_own": "attention_sink/shared_by_all_heads",
    "it_equals_the_recurrence": "linear_attention/number_in_the_divisor",
    "the_weights_are_shares_of_products_of_features": "linear_attention/relu_plus_one",
    "without_queries_and_keys_the_values_are_averaged_evenly": "linear_attention/relu_features",
    "the_weights_are_a_difference_of_softmaxes": "differential_attention/no_scale",
    "the_weights_sum_to_one_minus_lambda": "differential_attention/negative_weights_cut_off",
    "the_first_token_keeps_one_minus_lambda": "differential_attention/lambda_on_the_first",
    "with_lambda_zero_the_second_halves_do_not_count": "differential_attention/halves_interleaved",
    "equal_maps_cancel": "differential_attention/second_map_not_scaled",
    "the_output_is_linear_in_lambda": "differential_attention/lambda_clamped",
    "maps_that_change_places_change_the_sign": "differential_attention/scores_subtracted",
    "each_head_has_a_lambda_of_its_own": "differential_attention/mean_of_all_heads",
    "gates_of_zeros_let_half_through": "gated_attention/doubled",
    "a_gate_is_made_of_the_token_that_asks": "gated_attention/on_values",
    "equal_values_come_through_the_gate": "gated_attention/inverted",
    "each_number_has_a_gate_of_its_own": "gated_attention/one_for_each_head",
    "layers_that_give_nothing_leave_the_tokens": "gpt_block/no_first_residual",
    "a_constant_added_to_a_token_comes_through": "gpt_block/residual_of_normed_tokens",
    "the_returned_weights_are_those_used": "masked_multi_head/returns_unmasked_weights",
    "the_rows_of_the_returned_weights_sum_to_one": "masked_multi_head/returns_rounded_weights",
    "the_scores_are_divided_by_the_root_of_the_head_size": "multi_head_attention/no_scale",
    "larger_queries_and_smaller_keys_cancel": "multi_head_attention/clips_its_weights",
    "rotating_queries_and_keys_together_changes_nothing": "multi_head_attention/relu_on_queries",
    "a_constant_added_to_the_scores_cancels": "multi_head_attention/mask_fills_minus_ten_thousand",
    "permuting_the_heads_permutes_their_outputs": "multi_head_attention/first_head_repeated",
    "the_output_is_the_sum_of_what_the_heads_give": "multi_head_attention/tanh_on_output",
    "each_head_fills_only_its_own_part": "multi_head_attention/heads_scored_together",
    "a_head_s_values_may_be_written_in_another_basis": "multi_head_attention/heads_interleaved",
    "every_weight_gets_a_gradient": "multi_head_attention/forward_in_no_grad",
    "the_gradient_predicts_a_small_step": "multi_head_attention/input_detached",
    "the_gradients_predict_a_small_step_of_the_weights": (
        "multi_head_attention/value_gradient_halved"
    ),
    "float32_is_exact_to_float32": "multi_head_attention/rounds_float32_to_half",
    "it_moves_to_another_dtype": "multi_head_attention/returns_float32",
    "gradients_on_or_off_is_the_same_answer": "multi_head_attention/doubled_under_autograd",
    "many_heads_are_right_too": "multi_head_attention/heads_in_groups_of_six",
    "a_copy_is_trained_by_itself": "multi_head_wrapper/merge_closes_over_the_heads",
    "each_token_adds_its_own_value": "causal_attention/residual_added",
    "what_was_trained_is_used": "multi_head_attention/dropout_through_data",
    "each_document_is_alone": "packed_documents/begun_late",
    "every_number_of_the_context_counts": "context_width/first_numbers",
    "dropout_acts_on_the_output_too": "output_dropout/not_dropped",
    "a_training_step_moves_every_weight": (
        "multi_head_attention/output_layer_kept_from_the_optimizer"
    ),
}
"""For every property that no answer breaks first, an answer of a bank that it accuses."""


def broken_first() -> Iterator[tuple[str, str]]:
    """Properties, and the answers that break each and none that is tried before.

    The small exercises come last: of several witnesses of a property the last is heard.
    """
    named = {prop.claim: prop.name for prop in ALL}
    for slug in reversed(BY_SLUG):
        for kind in texts.load_kinds(slug):
            for claim in named.keys() & set(texts.find_rows(kind.text, "claim")):
                yield named[claim], f"{slug}/{kind.names[0]}"


PROMISED = {
    "not_even_nan_counts_where_it_is_hidden": "nan_times_zero",
    "a_query_that_sees_nothing_gets_what_is_promised": "blind_queries_average_all",
    "a_query_that_sees_nothing_spoils_no_gradient": "blind_queries_overwritten",
    "numbers_in_an_added_mask_are_added_to_the_scores": "bias_read_as_boolean_in_evaluation",
    "the_output_is_the_same_without_weights": "nan_with_weights_alone",
    "a_cache_holds_no_more_than_its_window": "window_never_forgotten",
    "padded_prompts_are_continued_as_each_alone": "padding_of_earlier_calls_forgotten",
    "bfloat16_hides_padding_and_later_tokens_together": "hidden_by_the_smallest_float32",
    "float16_hides_padding_and_later_tokens_together": "hidden_by_the_smallest_float32",
}
"""For what libraries promise, and no exercise asks for, an answer of `real_bugs.toml`."""

INSTEAD = {
    "arguments_left_out_have_their_defaults": "masked_multi_head/default_of_sixteen_heads",
    "the_biases_follow_the_option": "causal_attention/bias_always_on",
    "new_numbers_in_the_same_tensor_are_a_new_input": (
        "looped_causal_self_attention/memo_by_corners"
    ),
}
"""Where the answer that breaks it first does so by what was before, in its own terms, or by
an address: memory that was freed and given again lets it fail earlier in one run of four."""

WITNESSES = {**dict(broken_first()), **LATER, **INSTEAD, **PROMISED}
"""For every property an answer that it accuses, of a bank or of `real_bugs.toml`."""

CONTRACTS = (
    *(exercise.contract for exercise in EXERCISES),
    *(real_bugs.find_edited(name).contract for name in dict.fromkeys(PROMISED.values())),
    *(kind.contract for kind in KINDS.values()),
)
"""what exercises ask for, what modules of ours promise besides, and kinds without an exercise"""
FOLDERS = {**BY_SLUG, **KINDS}

ECHOES = {prop.name for prop in ALL if prop.redundant_because}


# ---------------------------------------------------------------------------------- judging


def from_bank(slug: str, name: str) -> Harness:
    there = {answer.name: answer.source for answer in list_answers(FOLDERS[slug], "wrong")}
    assert name in there, f"{slug}/{name} is gone: name another witness in LATER"
    return load_source(there[name], FOLDERS[slug].contract)


def witness(label: str) -> tuple[Harness, Harness]:
    """A wrong answer, and a right one to what it answers. What is loaded last can be pickled."""
    if "/" in label:
        slug, name = label.split("/")
        right = solved(slug)
        return from_bank(slug, name), right
    edited = real_bugs.find_edited(label)
    right = load_source(edited.right, edited.contract)
    return load_source(edited.wrong, edited.contract), right


@functools.cache
def solved(slug: str) -> Harness:
    return load_source(FOLDERS[slug].solution, FOLDERS[slug].contract)


@functools.cache
def generate_cases(place: int) -> tuple[Case, ...]:
    """The cases of one of the contracts: those of its exercise, if it is one's."""
    if place < len(EXERCISES):
        return generate_case_set(CONTRACTS[place], EXERCISES[place].cases)
    return generate_case_set(CONTRACTS[place])


def find_cases(contract: Contract) -> tuple[Case, ...]:
    return generate_cases(CONTRACTS.index(contract))


def accusation(prop: Property, harness: Harness) -> str:
    """What the property says against an answer; nothing if it holds."""
    known = find_cases(harness.requested_contract)
    return accuse(prop, harness, prop.select_cases(harness.contract, known))


def required(prop: Property) -> Iterator[Property]:
    for one in prop.requires:
        yield from required(one)
        yield one


def heard(prop: Property, harness: Harness) -> bool:
    """Whether it accuses an answer, and is tried at all: what it requires holds."""
    needed = set(required(prop))  # in their order: a module may be another one after a call
    before = [one for one in select_for_contract(harness.requested_contract) if one in needed]
    return not any(accusation(one, harness) for one in before) and bool(accusation(prop, harness))


@pytest.mark.sampled("name", WITNESSES, list(WITNESSES)[::11])
def test_no_property_is_idle(name: str) -> None:
    wrong, right = witness(WITNESSES[name])
    prop = BY_NAME[name]
    assert prop.applies_to(wrong.requested_contract)
    assert accusation(prop, wrong), "it accuses nobody"
    assert accusation(prop, right) == ""
    wrong.forget()  # what remembers earlier calls would be accused by whoever comes second
    assert heard(prop, wrong) is (name not in ECHOES)


def test_every_property_has_a_witness() -> None:
    assert set(WITNESSES) == set(BY_NAME), "write an answer that breaks it and none before it"
    assert not set(LATER) & set(dict(broken_first())), "an answer breaks it first: leave it out"
    assert set(BY_NAME) >= ECHOES


# ------------------------------------------------------------------------------ what they say


def test_there_are_many() -> None:
    assert len(ALL) >= 45


@pytest.mark.parametrize("told", [lambda i: i.name, lambda i: i.claim, lambda i: i.check])
def test_no_two_are_the_same(told: Callable[[Property], object]) -> None:
    assert len({told(prop) for prop in ALL}) == len(ALL)


@pytest.mark.parametrize("prop", ALL, ids=[prop.name for prop in ALL])
def test_property_is_complete(prop: Property) -> None:
    assert re.fullmatch(r"[a-z0-9_]{8,60}", prop.name)
    assert re.fullmatch(r"\S.*\S\.", prop.claim), "one line, ending in a full stop"
    # A statement begins with a capital, or with code.
    assert prop.claim[0].isupper() or re.match(r"\w+[.(]", prop.claim)
    assert "  " not in prop.claim
    assert len(prop.claim) <= 100
    assert isinstance(prop.group, PropertyGroup)
    assert prop.limit >= 1
    assert set(prop.dtypes) <= set(DTYPES)
    assert prop.dtypes


@pytest.mark.parametrize("prop", ALL, ids=[prop.name for prop in ALL])
def test_property_applies_somewhere_and_has_cases_there(
    prop: Property, pytestconfig: pytest.Config
) -> None:
    asked = [each for each in CONTRACTS if prop.applies_to(each)]
    assert asked
    for contract in asked if pytestconfig.getoption("whole") else asked[-2:]:
        assert prop.select_cases(contract, find_cases(contract)), contract.name


@pytest.mark.parametrize("prop", ALL, ids=[prop.name for prop in ALL])
def test_a_hint_is_one_line_of_a_terminal_and_gives_no_code_away(prop: Property) -> None:
    """What has to hold, or a question: what breaks it is not known where a hint is given."""
    assert len(f"    hint      {prop.hint}") <= 80
    assert not re.search(r"assert |view\(b|\w+=\w|\[:", prop.hint)
    assert not prop.hint.endswith(".")


def test_prerequisites_come_before_a_property() -> None:
    order = {prop: place for place, prop in enumerate(ALL)}
    for prop in ALL:
        for before in prop.requires:
            assert order[before] < order[prop], f"{prop.name} requires {before.name}"


def test_every_group_and_every_capability_is_used() -> None:
    assert {prop.group for prop in ALL} == set(PropertyGroup)
    had = set(itertools.chain(*(contract.capabilities for contract in CONTRACTS)))
    assert had == set(Capability)


def test_contract_gets_the_properties_its_capabilities_allow() -> None:
    for exercise in EXERCISES:
        chosen = select_for_contract(exercise.contract)
        waived = exercise.contract.waived
        assert exercise.properties == tuple(p for p in chosen if p.name not in waived)
        assert chosen == tuple(i for i in ALL if i.needs <= exercise.contract.capabilities)
        assert len(chosen) >= 10
