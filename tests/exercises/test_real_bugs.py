"""Bugs that libraries shipped, each as an answer of the banks, and the property that accuses it.

What each was is read from its issue; the answers are ours. Not here, since no exercise asks for it:
sequences packed into one, and numbers that are not finite at hidden places, which plain attention
multiplies by a weight of zero and so passes on as NaN.
"""

from dataclasses import dataclass

import pytest

from exercises import BY_SLUG
from exercises.answers import find_answer
from grader.sandbox.grader_side.subject import make_subject
from properties.cases.case_set import generate_case_set
from properties.check import find_first_failure
from properties.families import ALL
from properties.harness.harness import Harness
from properties.violation import Status

# What wrong answers do may make torch warn; that is not what they are accused of.
pytestmark = pytest.mark.filterwarnings("ignore")
BY_NAME = {prop.name: prop for prop in ALL}


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug of a library: its issues, an answer that has it, and who accuses it."""

    issues: str
    answer: str
    accused_by: str


BUGS = (
    Bug(
        "karpathy/nanoGPT#240, huggingface/pytorch-image-models#1978",
        "causal_self_attention/rate_of_the_config_in_evaluation",
        "evaluation_ignores_a_rate_in_the_config",
    ),
    Bug(
        "huggingface/transformers#33844",
        "causal_attention/dropout_in_eval",
        "evaluation_ignores_dropout",
    ),
    Bug(
        "NVIDIA/Megatron-LM#411",
        "multi_head_attention/rate_halved_after_some_calls",
        "training_drops_again_after_an_evaluation",
    ),
    Bug(
        "lucidrains/x-transformers#160, rasbt/LLMs-from-scratch#1062",
        "fused_causal_self_attention/boolean_mask_inverted",
        "the_future_is_invisible",
    ),
    Bug(
        "mlc-ai/mlc-llm#3426",
        "rope/no_scale",
        "the_scores_are_divided_by_the_root_of_the_head_size",
    ),
    Bug(
        "Dao-AILab/flash-attention#2541",
        "multi_head_attention/old_keys_detached_when_long",
        "gradients_are_right_at_every_size",
    ),
    Bug(
        "pytorch/pytorch#163597",
        "multi_head_attention/scale_capped_at_64",
        "wide_heads_are_right_too",
    ),
    Bug(
        "Dao-AILab/flash-attention#414",
        "multi_head_attention/noise_on_the_way_back",
        "the_same_backward_gives_the_same_gradients",
    ),
    Bug(
        "pytorch/pytorch#103749, #110213",
        "masked_multi_head/blocked_row_drops_the_mask",
        "a_query_that_sees_nothing_spoils_no_other",
    ),
    Bug(
        "huggingface/transformers#29285, vllm-project/vllm#1004",
        "rope/positions_in_the_dtype_of_x",
        "bfloat16_tells_positions_apart",
    ),
    Bug(
        "huggingface/transformers#26792, #39408",
        "sliding_window/window_longer_by_one",
        "what_lies_before_the_window_is_invisible",
    ),
    Bug(
        "vllm-project/vllm#3385",
        "sliding_window/window_shorter_by_one",
        "what_may_be_seen_is_seen",
    ),
    Bug(
        "onnx/onnx#7274, apple/axlearn#842",
        "grouped_query/heads_tiled",
        "neighbouring_heads_share_keys_and_values",
    ),
    Bug(
        "onnx/onnx#8068, tinygrad/tinygrad#15949",
        "kv_cache/triangle_at_the_top_left",
        "one_token_at_a_time_gives_the_same_output",
    ),
    Bug(
        "microsoft/onnxruntime#29020",
        "causal_alignment/mask_at_the_top_left",
        "a_single_query_sees_every_key",
    ),
    Bug(
        "NVIDIA/Megatron-LM#1501",
        "latent_attention/scale_of_head_dim",
        "the_scores_are_divided_by_the_root_of_the_head_size",
    ),
    Bug(
        "ollama/ollama#13893",
        "latent_attention/scale_of_absorbed_queries",
        "the_scores_are_divided_by_the_root_of_the_head_size",
    ),
    Bug(
        "vllm-project/vllm-metal#665",
        "softcap/not_limited",
        "it_equals_the_equation",
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.answer)
def test_the_property_that_the_bug_breaks_accuses_it(bug: Bug) -> None:
    slug, name = bug.answer.split("/")
    exercise, prop = BY_SLUG[slug], BY_NAME[bug.accused_by]
    cases = prop.select_cases(exercise.contract, generate_case_set(exercise.contract))

    def judge(source: str) -> Status:
        namespace: dict[str, object] = {"__name__": "answer"}
        exec(compile(source, name, "exec"), namespace)
        harness = Harness(make_subject(namespace), exercise.contract)
        return find_first_failure(prop, harness, cases).status

    assert judge(find_answer(exercise, name).source) in (Status.FAILED, Status.CRASHED)
    assert judge(exercise.solution) is Status.PASSED
