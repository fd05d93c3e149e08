"""Attention in blocks of keys: each claim accuses what breaks it, and the bounds hold."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer, list_answers
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.grader.sandbox.worker.held import count_held
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.families.online import (
    blocks_may_be_far_above_or_below_others,
    every_block_size_gives_the_same,
    it_never_holds_all_scores,
    parts_are_merged_by_their_log_sum_exp,
    the_gradient_of_the_log_sum_exp_is_right,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import OF_SOME_CONTRACTS, Mistake
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.worked_example import work_example
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from tests.properties.mistakes.naming import find_names
from tests.submissions import assert_asked_with, execute, find_broken

EXERCISE = BY_SLUG["online_softmax"]
CONTRACT = EXERCISE.contract
SIZES, FAR = every_block_size_gives_the_same, blocks_may_be_far_above_or_below_others
MERGED, HELD = parts_are_merged_by_their_log_sum_exp, it_never_holds_all_scores
GRADIENT, EQUAL = the_gradient_of_the_log_sum_exp_is_right, it_equals_the_equation
OWN = (SIZES, FAR, MERGED, HELD, GRADIENT)
OF_BLOCKS = {Capability.BLOCKED, Capability.LOGSUMEXP}
BLOCKS = [each for each in OF_SOME_CONTRACTS if each.needs & OF_BLOCKS]
Answer = tuple[Tensor, Tensor]


def load(source: str) -> Callable[..., Answer]:
    loaded: Callable[..., Answer] = execute(source)[CONTRACT.name]
    return loaded


def test_each_claim_is_made_of_blocks_alone() -> None:
    assert_asked_with(Capability.BLOCKED, {*OWN})


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("blocks_have_to_be_smaller", {SIZES}),
        ("maximum_of_the_block", {FAR}),
        ("all_scores_at_once", {HELD}),
        ("scores_of_all_blocks_kept", {HELD}),
        ("weights_filled_in_block_by_block", {HELD}),
        ("logsumexp_detached", {GRADIENT}),
        ("logsumexp_to_base_two", {EQUAL, FAR, MERGED, GRADIENT}),
    ],
)
def test_each_claim_accuses_what_breaks_it(name: str, broken: set[Property]) -> None:
    function = load(find_answer(EXERCISE, name).source)
    assert find_broken(EXERCISE, function, (EQUAL, *OWN)) == broken


def test_parts_that_do_not_merge_break_that_claim() -> None:
    right = load(EXERCISE.solution)

    def shifted(query: Tensor, key: Tensor, value: Tensor, block_size: int) -> Answer:
        output, lse = right(query, key, value, block_size)
        return output, lse if key.shape[2] == query.shape[2] else lse + key.shape[2] % 2

    assert find_broken(EXERCISE, shifted, (EQUAL, *OWN)) == {MERGED}


@pytest.mark.parametrize("name", [each.name for each in list_answers(EXERCISE, "right")])
def test_right_answers_hold_much_fewer_numbers_than_there_are_scores(name: str) -> None:
    function = load(find_answer(EXERCISE, name).source)
    queries, keys = 64, 512
    drawn = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(1, 1, n, 2, generator=drawn) for n in (queries, keys, keys))
    with torch.no_grad(), count_held(True, (query, key, value)) as held:
        function(query, key, value, 32)
    assert queries < held.most < queries * keys * 2 // 5


def test_what_is_given_and_what_is_gone_is_not_held() -> None:
    x = torch.zeros(100)
    with count_held(True, (x,)) as held:
        for _ in range(5):
            x.view(10, 10).mT[2:]  # a view of what was given
            y = x + 1  # takes the place of the one before
        y.view(4, 25).add_(1)  # a view of what is held
    assert held.most == 200, "the new one and the one before, while both are there"
    with count_held(False, (x,)) as held:
        x + 1
    assert held.most == 0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sharpness", [1, 30, 3000])
def test_the_log_sum_exp_of_right_answers_is_far_within_its_bound(
    dtype: str, sharpness: int
) -> None:
    case = CONTRACT.fit(
        Case(batch=2, tokens=40, heads=2, head_dim=5, sharpness=sharpness, dtype=dtype, seed=3)
    )
    ratios = []
    for name in ("running_maximum", "powers_of_two", "results_of_blocks_stacked", "two_passes"):
        function = load(find_answer(EXERCISE, name).source)
        harness = Harness(make_subject({CONTRACT.name: function}), CONTRACT)
        for block in (1, 7, 40):
            context = harness.get_context(replace(case, block=block))
            wanted, bound = context.expected.outputs[1], context.expected.tolerances[1].exact
            ratios.append(float(((context.answer[1] - wanted).abs() / bound).max()))
    assert 1e-4 < max(ratios) < 0.5


@pytest.mark.sampled("each", BLOCKS, BLOCKS[::3], ids=lambda each: each.name)
def test_each_mistake_is_named_and_shown(each: Mistake) -> None:
    assert all(find_names(way, CONTRACT) == [each.name] for way in each.variants)
    assert work_example(CONTRACT, each) is not None or len(each.variants) > 1


def test_a_right_answer_is_not_named() -> None:
    harness = Harness(make_subject({CONTRACT.name: load(EXERCISE.solution)}), CONTRACT)
    assert diagnose(harness) == ()
