"""Every invariant says something, accepts what is right, and accuses something wrong."""

import functools
import importlib.util
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from exercises import ALL as EXERCISES
from exercises import BY_SLUG, Exercise
from grader.sandbox.grader_side.subject import make_subject
from properties.case import Case
from properties.cases.case_set import generate_case_set
from properties.cases.case_tensors import DTYPES
from properties.contract import Capability
from properties.families import ALL, select_for_contract
from properties.harness.harness import Harness
from properties.property import Property, PropertyGroup
from properties.violation import SubmissionFailed, Violation

# What wrong answers do may make torch warn; that is not what they are accused of.
pytestmark = pytest.mark.filterwarnings("ignore")

BY_NAME = {invariant.name: invariant for invariant in ALL}

WITNESSES = {
    "it_can_be_constructed": "multi_head_attention/divisibility_of_d_in_checked",
    "the_weights_are_where_the_exercise_says": "multi_head_attention/out_proj_back_to_d_in",
    "the_output_has_the_right_shape": "causal_weights/mask_of_six_tokens",
    "the_weights_are_registered_and_trainable": "multi_head_attention/keys_frozen",
    "there_are_no_other_parameters": "multi_head_attention/mask_is_a_parameter",
    "the_biases_follow_the_option": "multi_head_attention/qkv_bias_always",
    "heads_that_do_not_divide_the_width_are_refused": "multi_head_attention/no_divisibility_check",
    "the_config_holds_all_it_needs": "causal_self_attention/expects_config_dropout",
    "the_dtype_is_kept": "multi_head_attention/returns_float32",
    "the_device_is_kept": "multi_head_attention/output_on_the_meta_device",
    "the_output_is_finite": "multi_head_attention/zero_scores_are_hidden",
    "every_length_up_to_the_context_works": "gpt2_size/context_of_256",
    "it_goes_through_the_fused_attention": "fused_causal_self_attention/computed_by_hand",
    "afterwards_the_two_modules_are_independent": "weight_transfer/frozen",
    "the_mask_may_be_left_out": "masked_multi_head/mask_demanded",
    "evaluation_is_repeatable": "multi_head_attention/keys_grow_over_calls",
    "evaluation_leaves_the_random_numbers_alone": "multi_head_attention/reseeds_in_forward",
    "the_input_is_left_unchanged": "masked_multi_head/mask_changed_in_place",
    "the_config_is_left_unchanged": "causal_self_attention/changes_the_config",
    "parameters_and_buffers_are_left_unchanged": "multi_head_attention/drifts",
    "earlier_calls_do_not_matter": "multi_head_attention/remembers_first_length",
    "other_instances_do_not_matter": "multi_head_attention/heads_counted_in_the_class",
    "new_numbers_in_the_same_tensor_are_a_new_input": (
        "multi_head_attention/keys_remembered_by_identity"
    ),
    "training_drops_again_after_an_evaluation": "multi_head_attention/an_evaluation_ends_dropout",
    "loading_moving_and_copying_leave_no_trace": (
        "multi_head_attention/additive_mask_of_the_first_dtype"
    ),
    "no_order_of_events_matters": "multi_head_attention/wrong_for_one_token_after_loading",
    "earlier_results_are_left_unchanged": "causal_attention/result_buffer_reused",
    "the_training_flag_is_left_alone": "multi_head_attention/calls_self_eval",
    "its_state_dict_carries_everything": "weight_transfer/forward_borrowed",
    "a_deep_copy_gives_the_same_output": "multi_head_attention/deep_copy_has_one_head",
    "each_sequence_is_attended_alone": "multi_head_attention/mean_over_batch",
    "permuting_the_batch_permutes_the_output": "multi_head_attention/first_batch_item_only",
    "the_memory_layout_does_not_matter": "multi_head_attention/reads_memory_as_contiguous",
    "the_output_depends_on_queries_keys_and_values": "multi_head_attention/averages_the_past",
    "it_equals_the_equation": "multi_head_attention/forgets_beyond_eight_tokens",
    "it_equals_the_streaming_computation": "multi_head_attention/no_scale",
    "it_equals_torch_s_attention": "multi_head_attention/no_mask",
    "it_equals_torch_s_multi_head_attention": "multi_head_attention/heads_reversed",
    "a_long_sequence_is_right_too": "causal_self_attention/window_of_sixteen",
    "many_heads_are_right_too": "multi_head_attention/more_than_eight_heads",
    "wide_heads_are_right_too": "multi_head_attention/wider_than_32",
    "the_future_is_invisible": "multi_head_attention/large_scores_shrunk",
    "a_prefix_gives_the_same_outputs": "multi_head_attention/mask_only_on_full_context",
    "what_may_be_seen_is_seen": "multi_head_attention/zero_scores_are_hidden",
    "derivatives_reach_only_the_past": "multi_head_attention/no_mask",
    "the_first_token_sees_only_itself": "multi_head_attention/no_mask",
    "the_order_of_the_past_does_not_matter": "multi_head_attention/caches_first_keys",
    "permuting_the_tokens_permutes_the_outputs": "masked_multi_head/causal_without_mask",
    "every_form_of_mask_is_understood": "masked_multi_head/padding_mask_on_queries",
    "blocked_tokens_change_nothing": "masked_multi_head/mask_first_sequence_only",
    "a_mask_of_ones_is_no_mask": "masked_multi_head/mask_inverted",
    "the_mask_is_not_remembered": "masked_multi_head/mask_remembered",
    "a_causal_mask_hides_the_future": "masked_multi_head/mask_transposed",
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
    "the_returned_weights_are_those_used": "masked_multi_head/returns_unmasked_weights",
    "the_rows_of_the_returned_weights_sum_to_one": "masked_multi_head/returns_rounded_weights",
    "the_scores_are_divided_by_the_root_of_the_head_size": "multi_head_attention/no_scale",
    "larger_queries_and_smaller_keys_cancel": "multi_head_attention/clips_its_weights",
    "rotating_queries_and_keys_together_changes_nothing": "multi_head_attention/relu_on_queries",
    "scores_in_the_millions_are_survived": "multi_head_attention/mask_fills_minus_ten_thousand",
    "a_constant_added_to_the_scores_cancels": "multi_head_attention/mask_fills_minus_ten_thousand",
    "permuting_the_heads_permutes_their_outputs": "multi_head_attention/first_head_repeated",
    "the_output_is_the_sum_of_what_the_heads_give": "multi_head_attention/tanh_on_output",
    "each_head_fills_only_its_own_part": "multi_head_attention/heads_scored_together",
    "a_head_s_values_may_be_written_in_another_basis": "multi_head_attention/heads_interleaved",
    "the_gradient_of_the_input_is_right": "multi_head_attention/input_detached",
    "the_gradients_of_the_weights_are_right": "multi_head_attention/values_detached",
    "every_weight_gets_a_gradient": "multi_head_attention/forward_in_no_grad",
    "the_gradient_predicts_a_small_step": "multi_head_attention/input_detached",
    "the_gradients_predict_a_small_step_of_the_weights": (
        "multi_head_attention/value_gradient_halved"
    ),
    "a_training_step_moves_every_weight": (
        "multi_head_attention/output_layer_kept_from_the_optimizer"
    ),
    "dropout_drops_the_stated_share": "multi_head_attention/dropout_keeps_with_p",
    "dropout_scales_up_what_it_keeps": "multi_head_attention/dropout_not_rescaled",
    "every_weight_is_dropped_for_itself": "multi_head_attention/dropout_drops_whole_keys",
    "dropout_acts_on_the_attention_weights": "multi_head_attention/dropout_on_values",
    "evaluation_ignores_dropout": "multi_head_attention/dropout_scaled_in_eval",
    "no_dropout_means_no_difference": "multi_head_attention/dropout_rate_fixed",
    "every_call_drops_anew": "multi_head_attention/dropout_of_first_call_kept",
    "float32_is_exact_to_float32": "multi_head_attention/rounds_float32_to_half",
    "it_takes_float32_as_built": "gpt2_size/half_precision",
    "bfloat16_runs": "masked_multi_head/fills_with_plus_infinity",
    "it_moves_to_another_dtype": "multi_head_attention/returns_float32",
    "it_moves_to_another_device": "multi_head_attention/mask_not_a_buffer",
    "gradients_on_or_off_is_the_same_answer": "multi_head_attention/doubled_under_autograd",
    "the_projections_start_different": "multi_head_attention/weights_start_at_zero",
    "the_heads_start_different": "multi_head_attention/weights_start_at_zero",
    "every_module_starts_anew": "multi_head_attention/weights_start_at_zero",
    "the_weights_start_between_zero_and_one": "self_attention_v1/parameters_from_randn",
}
"""For every invariant an answer of a bank that it accuses."""

ECHOES = {invariant.name for invariant in ALL if invariant.redundant_because}


# ---------------------------------------------------------------------------------- judging


def solution_of(slug: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "solution"}
    exec(compile(BY_SLUG[slug].solution, slug, "exec"), namespace)
    return namespace


def from_bank(slug: str, name: str) -> dict[str, Any]:
    path = BY_SLUG[slug].folder / "answers" / "wrong" / f"{name}.py"
    assert path.exists(), f"{slug}/{name} is gone: name another witness in WITNESSES"
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["submission"] = module
    spec.loader.exec_module(module)
    return vars(module)


def witness(label: str) -> tuple[Exercise, Harness]:
    """A wrong answer and the exercise that it answers."""
    slug, name = label.split("/")
    return BY_SLUG[slug], bench_of(slug, from_bank(slug, name))


def bench_of(slug: str, namespace: dict[str, Any]) -> Harness:
    return Harness(make_subject(namespace), BY_SLUG[slug].contract)


@functools.cache
def solved(slug: str) -> Harness:
    return bench_of(slug, solution_of(slug))


@functools.cache
def cases(slug: str) -> tuple[Case, ...]:
    return generate_case_set(BY_SLUG[slug].contract, BY_SLUG[slug].cases)


def accusation(invariant: Property, harness: Harness, slug: str) -> str:
    """What the invariant says against an answer; nothing if it holds."""
    for case in invariant.select_cases(harness.contract, cases(slug)):
        try:
            invariant.check(harness.get_context(case))
        except (Violation, SubmissionFailed) as reason:
            return f"{invariant.name}, {case}: {reason}"
    return ""


def required(invariant: Property) -> Iterator[Property]:
    for one in invariant.requires:
        yield from required(one)
        yield one


def heard(invariant: Property, harness: Harness, exercise: Exercise) -> bool:
    """Whether it accuses an answer, and is tried at all: what it requires holds."""
    before = set(required(invariant)) & set(exercise.properties)
    return not any(accusation(one, harness, exercise.slug) for one in before) and bool(
        accusation(invariant, harness, exercise.slug)
    )


@pytest.mark.parametrize("name", WITNESSES)
def test_no_property_is_idle(name: str) -> None:
    exercise, harness = witness(WITNESSES[name])
    invariant = BY_NAME[name]
    assert invariant in exercise.properties
    assert accusation(invariant, harness, exercise.slug), "it accuses nobody"
    assert accusation(invariant, solved(exercise.slug), exercise.slug) == ""
    harness.forget()  # what remembers earlier calls would be accused by whoever comes second
    assert heard(invariant, harness, exercise) is (name not in ECHOES)


def test_every_property_has_a_witness() -> None:
    assert set(WITNESSES) == set(BY_NAME)
    assert set(BY_NAME) >= ECHOES


# ------------------------------------------------------------------------------ what they say


def test_there_are_many() -> None:
    assert len(ALL) >= 45


@pytest.mark.parametrize("told", [lambda i: i.name, lambda i: i.claim, lambda i: i.check])
def test_no_two_are_the_same(told: Callable[[Property], object]) -> None:
    assert len({told(invariant) for invariant in ALL}) == len(ALL)


@pytest.mark.parametrize("invariant", ALL, ids=[invariant.name for invariant in ALL])
def test_property_is_complete(invariant: Property) -> None:
    assert re.fullmatch(r"[a-z0-9_]{8,60}", invariant.name)
    assert re.fullmatch(r"\S.*\S\.", invariant.claim), "one line, ending in a full stop"
    # A statement begins with a capital, or with code.
    assert invariant.claim[0].isupper() or re.match(r"\w+[.(]", invariant.claim)
    assert "  " not in invariant.claim
    assert len(invariant.claim) <= 100
    assert isinstance(invariant.group, PropertyGroup)
    assert invariant.limit >= 1
    assert set(invariant.dtypes) <= set(DTYPES)
    assert invariant.dtypes


@pytest.mark.parametrize("invariant", ALL, ids=[invariant.name for invariant in ALL])
def test_property_applies_somewhere_and_has_cases_there(invariant: Property) -> None:
    asked = [e for e in EXERCISES if invariant.applies_to(e.contract)]
    assert asked
    for exercise in asked:
        assert invariant.select_cases(exercise.contract, cases(exercise.slug)), exercise.slug


def test_prerequisites_come_before_a_property() -> None:
    order = {invariant: place for place, invariant in enumerate(ALL)}
    for invariant in ALL:
        for before in invariant.requires:
            assert order[before] < order[invariant], f"{invariant.name} requires {before.name}"


def test_every_group_and_every_capability_is_used() -> None:
    assert {invariant.group for invariant in ALL} == set(PropertyGroup)
    had = set(itertools.chain(*(exercise.contract.capabilities for exercise in EXERCISES)))
    assert had == set(Capability)


def test_contract_gets_the_properties_its_capabilities_allow() -> None:
    for exercise in EXERCISES:
        chosen = select_for_contract(exercise.contract)
        assert chosen == exercise.properties
        assert chosen == tuple(i for i in ALL if i.needs <= exercise.contract.capabilities)
        assert len(chosen) >= 10
