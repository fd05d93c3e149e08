"""Where numbers go in a split or a merge follows from the step itself, whatever it does."""

from dataclasses import replace

import pytest
import torch

from headcheck.grader.grading.reshaping import (
    HEAD_DIM,
    HEADS,
    NUMEL_PER_PART,
    TOKENS,
    trace_layouts,
)
from headcheck.properties.mistakes.catalogue import DETERMINISTIC
from headcheck.properties.mistakes.pipeline import CORRECT, PipelineState, merge_heads
from headcheck.properties.mistakes.steps import layers, output

BY_NAME = {each.name: each for each in DETERMINISTIC}


def of(name: str, way: int = 0) -> list[tuple[str, str]]:
    recipe = CORRECT.override(BY_NAME[name].variants[way])
    return [(each.step, each.of) for each in trace_layouts(recipe)]


def test_right_pipeline_has_nothing_to_show() -> None:
    assert trace_layouts(CORRECT) == ()
    assert trace_layouts(CORRECT.override({"use": lambda s: s.weights})) == ()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("split_without_transpose", [("split", "queries")]),
        ("split_channel_major", [("split", "queries")]),
        ("merge_without_transpose", [("merge", "heads")]),
        ("merge_channel_major", [("merge", "heads")]),
        ("heads_and_head_dim_exchanged", [("split", "queries")]),
        ("attends_over_heads", [("split", "queries")]),
        ("packed_projection_cut_wrongly", [("split", "queries")]),
        ("heads_reversed", [("merge", "heads")]),
    ],
)
def test_mistakes_in_reshaping_are_shown(name: str, shown: list[tuple[str, str]]) -> None:
    assert of(name) == shown


def test_expected_layout_has_every_number_in_place() -> None:
    [split] = trace_layouts(CORRECT.override(BY_NAME["split_without_transpose"].variants[0]))
    assert split.expected == tuple(
        tuple(tuple((token, head, c) for c in range(HEAD_DIM)) for token in range(TOKENS))
        for head in range(HEADS)
    )
    [merge] = trace_layouts(CORRECT.override(BY_NAME["merge_without_transpose"].variants[0]))
    assert merge.expected == (
        tuple(
            tuple((token, head, c) for head in range(HEADS) for c in range(HEAD_DIM))
            for token in range(TOKENS)
        ),
    )


def test_a_view_cuts_the_tokens_one_after_the_other() -> None:
    [split] = trace_layouts(CORRECT.override({"split": layers.straight_view}))
    assert split.got[0][1] == ((0, 1, 0), (0, 1, 1), (0, 1, 2))  # head 0 gets token 0's head 1
    assert split.got[1][0] == ((1, 1, 0), (1, 1, 1), (1, 1, 2))


def test_a_merge_that_undoes_its_own_split_is_not_shown() -> None:
    change = {"split": layers.every_nth_column, "merge": output.channels_first}
    assert [each.step for each in trace_layouts(CORRECT.override(change))] == ["split"]


def test_number_of_another_part_names_that_part() -> None:
    [split] = trace_layouts(CORRECT.override({"split": layers.packed_every_third}))
    assert split.got[0][0] == ((0, 0, 0), (0, 1, 0), (0, 0, 0, 1))


def test_a_number_that_came_from_nowhere_has_no_origin() -> None:
    [merge] = trace_layouts(CORRECT.override({"merge": output.only_heads(lambda heads: [0])}))
    assert merge.got[0][0][HEAD_DIM:] == ((),) * HEAD_DIM


@pytest.mark.parametrize(
    "merge",
    [
        lambda s: merge_heads(
            s.head_contexts.mean(1, keepdim=True).expand_as(s.head_contexts)
        ),  # no move
        lambda s: merge_heads(s.head_contexts).round(decimals=-1),  # integers, but others
        lambda s: -merge_heads(s.head_contexts),
        lambda s: merge_heads(s.head_contexts) + 3 * NUMEL_PER_PART,
        lambda s: torch.zeros_like(merge_heads(s.head_contexts)),
        lambda s: s.head_contexts[0, 0, 0],  # nothing that can be drawn
        lambda s: merge_heads(s.head_contexts)[:, :0],
        lambda s: merge_heads(s.head_contexts).repeat(1, 9, 1),
        lambda s: s.head_contexts.reshape(7, 5),  # torch raises
    ],
)
def test_steps_that_change_values_are_not_shown(merge: object) -> None:
    assert trace_layouts(replace(CORRECT, merge=merge)) == ()  # type: ignore[arg-type]


def test_every_catalogue_mistake_can_be_laid_out() -> None:
    for each in DETERMINISTIC:
        for change in each.variants:
            for shown in trace_layouts(CORRECT.override(change)):
                assert shown.expected != shown.got


def test_split_of_values_alone_is_labelled() -> None:
    def split(s: PipelineState) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        right, wrong = CORRECT.split(s), layers.straight_view(s)
        return right[0], right[1], wrong[2]

    [shown] = trace_layouts(CORRECT.override({"split": split}))
    assert shown.of == "values"
    assert all(len(origin) == 3 for block in shown.got for row in block for origin in row)
