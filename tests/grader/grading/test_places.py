"""Stages are found in whatever layout they have, and what is told of a place is true."""

import re

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.grading.places.locate import Located, locate
from headcheck.grader.grading.places.matching import Pattern, find_stage, fits
from headcheck.grader.grading.places.stages import OracleStage
from headcheck.grader.grading.places.wording import tell_place
from headcheck.grader.grading.tracing.graph import Recorded
from headcheck.properties.harness.harness import Harness
from tests.grader.sandbox.runtimes import open_source

B, H, T, W = 2, 3, 5, 4
X = torch.arange(float(B * H * T * W)).double().reshape(B, H, T, W).sin()


def record(values: Tensor, number: int = 0) -> Recorded:
    return Recorded(number, tuple(values.shape), values.reshape(-1))


@pytest.mark.parametrize(
    "laid",
    [
        X,
        X.transpose(1, 2),
        X.mT,
        X.flatten(0, 1),
        X.transpose(1, 2).flatten(2),
        X.transpose(1, 2).reshape(B * T, H, W),
        X.unflatten(-1, (2, 2)),
        X.unsqueeze(1),
    ],
)
def test_the_same_numbers_are_found_in_any_layout(laid: Tensor) -> None:
    assert Pattern(X, "bhtw").find_order(record(laid)) is not None


@pytest.mark.parametrize(
    "scrambled",
    [X.reshape(B, T, H * W), X.reshape(B, T, H, W), X.reshape(B, H, W, T), X.flip(1), X + 1e-3],
)
def test_scrambled_or_changed_numbers_are_others(scrambled: Tensor) -> None:
    assert Pattern(X, "bhtw").find_order(record(scrambled)) is None


def test_a_shape_may_only_cut_between_axes_or_within_one() -> None:
    assert fits((2, 15), (2, 3, 5)) and fits((2, 3, 5, 2, 2), (2, 3, 5, 4))
    assert not fits((5, 6), (2, 3, 5))
    assert not fits((6, 2), (2, 6))  # heads and widths are exchanged


def test_scores_are_found_up_to_a_factor_and_hidden_ones_whatever_they_are() -> None:
    scores = torch.randn(B, H, T, T, dtype=torch.float64)
    hidden = torch.ones(T, T).triu(1).bool().expand(scores.shape)
    stage = OracleStage("masked scores", scores, "bhts", (), hidden=hidden, any_scale=True)
    filled = (2 * scores).masked_fill(hidden, -1e9)
    match = find_stage(stage, {scores.numel(): [record(filled)]}, 1e-9)
    assert match is not None and match.factors == {0: pytest.approx(2.0)}
    shallow = (2 * scores).masked_fill(hidden, -10.0)
    assert find_stage(stage, {scores.numel(): [record(shallow)]}, 1e-9) is None


def test_a_stage_is_found_head_by_head_only_if_no_head_is_missing() -> None:
    pieces = [record(X[:, head], head) for head in range(H)]
    stage = OracleStage("queries", X, "bhtw", ())
    match = find_stage(stage, {B * T * W: pieces}, 1e-9)
    assert match is not None and match.steps == {0, 1, 2} and not match.whole
    assert find_stage(stage, {B * T * W: pieces[:2]}, 1e-9) is None


def test_queries_come_before_keys() -> None:
    scores = torch.randn(B, T, T, dtype=torch.float64)
    stage = OracleStage("scores", scores, "bts", ())
    turned = find_stage(stage, {scores.numel(): [record(scores.mT.contiguous())]}, 1e-9)
    assert turned is not None and not turned.upright


# ------------------------------------------------------------------------------ whole answers


def locate_in(slug: str, name: str) -> Located | None:
    exercise = BY_SLUG[slug]
    subject = open_source(find_answer(exercise, name).source, exercise.contract.name)
    return locate(Harness(subject, exercise.contract), ())


def list_lines(slug: str, name: str, text: str) -> set[int]:
    lines = find_answer(BY_SLUG[slug], name).source.splitlines()
    return {number for number, line in enumerate(lines, 1) if re.search(text, line)}


@pytest.mark.parametrize(
    ("answer", "stage", "text"),
    [
        ("causal_attention/softmax_over_queries", "weights", "softmax"),
        ("causal_attention/own_token_hidden", "masked", "triu"),
        ("causal_attention/scale_without_root", "scores", "shape"),
        ("causal_attention/keys_viewed_not_transposed", "k", "view"),
        ("causal_attention/masked_fill_result_lost", "masked", "masked_fill"),
        ("causal_attention/residual_added", "", "return"),
        ("multi_head_wrapper/concatenated_over_tokens", "", "cat"),
        ("softcap/not_multiplied", "adjusted", "tanh"),
        ("rope/keys_turned_the_other_way", "kr", "k \\* cos"),
    ],
)
def test_the_first_stage_that_differs_is_told(answer: str, stage: str, text: str) -> None:
    slug, name = answer.split("/")
    located = locate_in(slug, name)
    assert located is not None and located.bound is not None
    assert located.bound.stage == stage
    assert {line for _, line in located.bound.lines} & list_lines(slug, name, text)


@pytest.mark.parametrize(
    ("answer", "text", "count"),
    [
        ("multi_head_wrapper/one_head_repeated", r"\[head\] \* num_heads", 1),
        ("multi_head_wrapper/value_layer_shared", r"head\.W_value = ", 1),
        ("gpt_block/norm_shared", r"self\.norm2 = self\.norm1", 2),
        ("causal_attention/bias_ignored", r"self\.W_key = ", 3),
        ("self_attention_v2/bias_by_default", "qkv_bias=True", 3),
        ("scaled_rope/medium_ones_divided", "return theta / 8", 6),
        ("scaled_rope/base_of_a_thousand", "BASE = ", 3),
        ("softcap/result_discarded", r"^        torch\.tanh", 3),
        ("rope/turned_result_discarded", r"self\.turn\(q\), self", 3),
        ("rope/tables_of_neighbours", "repeat_interleave", 5),
        ("gpt_block/post_norm", r"self\.norm1\(x \+ shortcut\)", 3),
        ("gated_attention/no_sigmoid", "gate = ", 3),
        ("alibi/weights_lowered", r"weights \+ bias", 2),
        ("padding_mask/cut_to_their_number", r"int\(mask", 7),
        ("latent_attention/turned_part_subtracted", " - torch.einsum", 2),
        ("differential_attention/no_mask", r"triu\(t\)", 2),
        ("causal_attention/identity", "return x", 1),
        ("causal_weights/first_way_over_queries", "dim=0", 3),
        ("looped_causal_self_attention/heads_interleaved", "stack", 1),
    ],
)
def test_a_place_has_lines_that_compute_nothing(answer: str, text: str, count: int) -> None:
    slug, name = answer.split("/")
    located = locate_in(slug, name)
    assert located is not None and located.bound is not None
    lines = {line for _, line in located.bound.lines}
    assert lines & list_lines(slug, name, text) and len(lines) <= count


def test_weights_that_are_one_and_the_same_or_missing_are_told() -> None:
    for answer, sentence in (
        ("multi_head_wrapper/one_head_repeated", "Several weights, which should differ, are one"),
        ("causal_attention/bias_ignored", "A weight that the statement asks for is missing."),
    ):
        located = locate_in(*answer.split("/"))
        place = None if located is None else tell_place(located)
        assert place is not None and place.sentence.startswith(sentence)


@pytest.mark.parametrize(
    "answer",
    [
        "causal_attention/dropout_never",
        "causal_attention/generator_reseeded",
        "causal_attention/mask_not_a_buffer",
        "causal_attention/batch_squeezed",
    ],
)
def test_nothing_is_told_where_values_are_right(answer: str) -> None:
    assert locate_in(*answer.split("/")) is None


def test_a_place_tells_a_row_of_right_and_wrong_numbers() -> None:
    located = locate_in("causal_attention", "softmax_over_queries")
    assert located is not None
    place = tell_place(located)
    assert place is not None and place.of == "token 0 of sequence 0"
    assert place.right == ("1", "0", "0", "0", "0") != place.got
    [line] = list_lines("causal_attention", "softmax_over_queries", r"softmax\(")
    assert place.sentence == (
        f"On line {line} the masked scores are right, but the weights are not."
    )


def test_a_factor_is_told() -> None:
    located = locate_in("causal_attention", "no_scale")
    assert located is not None
    place = tell_place(located)
    assert place is not None
    assert place.sentence.startswith("The scores are 2.83 times what they should be")
