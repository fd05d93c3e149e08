"""Where numbers go in a split or a merge follows from the step itself, whatever it does."""

from dataclasses import replace

import pytest
import torch

from grader.grading.reshaping import EACH, HEAD_DIM, HEADS, TOKENS, layouts
from properties.mistakes.catalogue import CATALOGUE
from properties.mistakes.pipeline import RIGHT, Steps, merge_heads
from properties.mistakes.steps import layers, output

BY_NAME = {each.name: each for each in CATALOGUE}


def of(name: str, way: int = 0) -> list[tuple[str, str]]:
    recipe = RIGHT.with_(BY_NAME[name].changes[way])
    return [(each.step, each.of) for each in layouts(recipe)]


def test_a_right_recipe_has_nothing_to_show() -> None:
    assert layouts(RIGHT) == ()
    assert layouts(RIGHT.with_({"use": lambda s: s.weights})) == ()


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


def test_what_is_expected_is_every_number_in_its_own_place() -> None:
    [split] = layouts(RIGHT.with_(BY_NAME["split_without_transpose"].changes[0]))
    assert split.expected == tuple(
        tuple(tuple((token, head, c) for c in range(HEAD_DIM)) for token in range(TOKENS))
        for head in range(HEADS)
    )
    [merge] = layouts(RIGHT.with_(BY_NAME["merge_without_transpose"].changes[0]))
    assert merge.expected == (
        tuple(
            tuple((token, head, c) for head in range(HEADS) for c in range(HEAD_DIM))
            for token in range(TOKENS)
        ),
    )


def test_a_view_cuts_the_tokens_one_after_the_other() -> None:
    [split] = layouts(RIGHT.with_({"split": layers.straight_view}))
    assert split.got[0][1] == ((0, 1, 0), (0, 1, 1), (0, 1, 2))  # head 0 gets token 0's head 1
    assert split.got[1][0] == ((1, 1, 0), (1, 1, 1), (1, 1, 2))


def test_a_merge_that_undoes_its_own_split_is_not_shown() -> None:
    change = {"split": layers.every_nth_column, "merge": output.channels_first}
    assert [each.step for each in layouts(RIGHT.with_(change))] == ["split"]


def test_a_number_of_another_part_says_of_which() -> None:
    [split] = layouts(RIGHT.with_({"split": layers.packed_every_third}))
    assert split.got[0][0] == ((0, 0, 0), (0, 1, 0), (0, 0, 0, 1))


def test_a_number_that_came_from_nowhere_has_no_origin() -> None:
    [merge] = layouts(RIGHT.with_({"merge": output.kept(lambda heads: [0])}))
    assert merge.got[0][0][HEAD_DIM:] == ((),) * HEAD_DIM


@pytest.mark.parametrize(
    "merge",
    [
        lambda s: merge_heads(s.mixed.mean(1, keepdim=True).expand_as(s.mixed)),  # no move
        lambda s: merge_heads(s.mixed).round(decimals=-1),  # integers, but others
        lambda s: -merge_heads(s.mixed),
        lambda s: merge_heads(s.mixed) + 3 * EACH,
        lambda s: torch.zeros_like(merge_heads(s.mixed)),
        lambda s: s.mixed[0, 0, 0],  # nothing that can be drawn
        lambda s: merge_heads(s.mixed)[:, :0],
        lambda s: merge_heads(s.mixed).repeat(1, 9, 1),
        lambda s: s.mixed.reshape(7, 5),  # torch raises
    ],
)
def test_what_does_more_than_move_is_not_shown(merge: object) -> None:
    assert layouts(replace(RIGHT, merge=merge)) == ()  # type: ignore[arg-type]


def test_no_way_of_the_catalogue_is_in_the_way() -> None:
    for each in CATALOGUE:
        for change in each.changes:
            for shown in layouts(RIGHT.with_(change)):
                assert shown.expected != shown.got


def test_a_split_of_the_values_alone_is_shown_as_theirs() -> None:
    def split(s: Steps) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        right, wrong = RIGHT.split(s), layers.straight_view(s)
        return right[0], right[1], wrong[2]

    [shown] = layouts(RIGHT.with_({"split": split}))
    assert shown.of == "values"
    assert all(len(origin) == 3 for block in shown.got for row in block for origin in row)
