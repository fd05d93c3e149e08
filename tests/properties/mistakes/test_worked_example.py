"""Small examples of mistakes: true by construction, round, and there for all common mistakes."""

import math

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.properties.mistakes.catalogue import ALL, Mistake
from headcheck.properties.mistakes.pipeline import CORRECT
from headcheck.properties.mistakes.steps.scores import nan_replaced
from headcheck.properties.mistakes.worked_example import (
    HEADS_APART,
    Shown,
    WorkedExample,
    work_example,
)

CONTRACT = BY_SLUG["multi_head_attention"].contract
MISTAKES = {each.name: each for each in ALL}
COMMON = [
    "no_scale",
    "scale_by_d_out",
    "scale_without_root",
    "no_mask",
    "own_token_hidden",
    "masked_after_softmax",
    "filled_with_zero",
    "filled_with_small_number",
    "softmax_over_queries",
    "double_softmax",
    "queries_and_keys_exchanged",
    "one_head",
    "split_without_transpose",
    "merge_without_transpose",
    "output_projection_missing",
    "dropout_in_evaluation",
    "dropout_not_rescaled",
]
MAX_WIDTH = 30
"""three matrices of so many characters stand side by side in a terminal"""


def example_of(name: str, slug: str = "multi_head_attention") -> WorkedExample:
    """The example of a mistake that is made in its first way."""
    mistake = MISTAKES[name]
    ways = [[CORRECT.override(mistake.variants[0])]] if mistake.variants else ()
    found = work_example(BY_SLUG[slug].contract, mistake, ways)
    assert found is not None
    return found


def numbers(shown: Shown) -> list[list[float]]:
    return [[float(cell.replace("−∞", "-inf")) for cell in row] for row in shown]


@pytest.mark.parametrize("name", COMMON)
def test_a_common_mistake_has_an_example_that_begins_with_round_numbers(name: str) -> None:
    found = example_of(name)
    assert found.right != found.wrong
    halves = {"0.5"} if "dropout" in name else set()
    others = {cell for row in found.before for cell in row} - halves
    assert all(cell.isdigit() or cell == HEADS_APART for cell in others)


@pytest.mark.sampled("mistake", ALL, ALL[::4], ids=lambda mistake: mistake.name)
def test_every_example_fits_and_differs_visibly(mistake: Mistake) -> None:
    ways = [[CORRECT.override(mistake.variants[0])]] if mistake.variants else ()
    for slug in ("multi_head_attention", "simplified_attention", "masked_multi_head"):
        found = work_example(BY_SLUG[slug].contract, mistake, ways)
        if found is not None:
            matrices = found.before, found.right, found.wrong
            assert found.right != found.wrong
            assert len({len(matrix) for matrix in matrices}) == 1
            assert all(len(" ".join(row)) <= MAX_WIDTH for matrix in matrices for row in matrix)


def test_the_numbers_are_those_of_the_equation() -> None:
    found = example_of("softmax_over_queries")
    later = torch.ones(2, 2).triu(1) > 0
    scores = torch.tensor(numbers(found.before)).masked_fill(later, -math.inf)
    for shown, dim in ((found.right, -1), (found.wrong, -2)):
        assert torch.allclose(torch.softmax(scores, dim), torch.tensor(numbers(shown)), atol=0.005)


def test_dropping_keeps_the_same_weights_on_both_sides() -> None:
    found = example_of("dropout_not_rescaled")
    right, wrong = torch.tensor(numbers(found.right)), torch.tensor(numbers(found.wrong))
    assert bool((right > 0).any()) and torch.equal(right, 2 * wrong)
    assert found.sizes.endswith("dropout 0.5, in training")


@pytest.mark.parametrize(
    "name",
    ["dropout_not_on_weights", "dropout_before_softmax", "dropout_of_another_rate", "bias_missing"],
)
def test_where_ways_that_look_unlike_are_not_told_apart_nothing_is_shown(name: str) -> None:
    """It might not be what the code computes."""
    assert work_example(CONTRACT, MISTAKES[name]) is None
    both = [[CORRECT.override(each)] for each in MISTAKES[name].variants[1:3]]
    assert work_example(CONTRACT, MISTAKES[name], both) is None


def test_a_nan_that_is_worked_around_is_not_shown() -> None:
    hidden = MISTAKES["own_token_hidden"]
    variant, _ = hidden.variants
    plain = work_example(CONTRACT, hidden, [[CORRECT.override(variant)]])
    around = CORRECT.override({**variant, "use": nan_replaced})
    without = work_example(CONTRACT, hidden, [[around]])
    assert plain is not None and without is not None
    assert any("nan" in row for row in plain.wrong)
    assert not any("nan" in row for row in without.wrong)


def test_what_overflows_is_shown_on_large_scores() -> None:
    found = example_of("softmax_overflows", "scaled_dot_product")
    assert min(map(min, numbers(found.before))) > 700
    assert any("nan" in row for row in found.wrong)


def test_a_workaround_where_nothing_is_nan_changes_nothing() -> None:
    scale = MISTAKES["no_scale"]
    [variant] = scale.variants
    ways = [[CORRECT.override(variant)], [CORRECT.override({**variant, "use": nan_replaced})]]
    assert work_example(CONTRACT, scale, ways) == example_of("no_scale")


def test_what_a_causal_mask_hides_is_hidden_where_weights_are_dropped_too() -> None:
    right = numbers(example_of("dropout_not_rescaled").right)
    assert right[0][1] == 0
    assert any(row[1] for row in right[1:]) or any(row[0] for row in right[1:])


def test_a_mask_that_is_given_is_named() -> None:
    assert example_of("no_scale", "masked_multi_head").sizes.endswith(", a causal mask")
    assert not example_of("no_scale").sizes.endswith("mask")


def test_the_way_that_was_found_is_shown() -> None:
    few = MISTAKES["filled_with_small_number"]
    minus_ten = few.variants[2]
    one = work_example(CONTRACT, few, [[CORRECT.override(few.variants[0])]])
    ten = work_example(CONTRACT, few, [[CORRECT.override(minus_ten)]])
    assert one is not None and ten is not None and one != ten
    assert "-12" in ten.before[0]


def test_what_may_make_up_for_itself_is_shown_where_it_does_not() -> None:
    assert ("nan", "nan") in example_of("renormalised_after_softmax").wrong


def test_a_linear_layer_has_none() -> None:
    assert work_example(BY_SLUG["linear_layer"].contract, MISTAKES["no_scale"]) is None


def test_random_numbers_are_left_alone() -> None:
    before = torch.random.get_rng_state()
    work_example(BY_SLUG["causal_attention"].contract, MISTAKES["dropout_twice"])
    assert torch.equal(before, torch.random.get_rng_state())
