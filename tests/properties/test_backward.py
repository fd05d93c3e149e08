"""Backwards that are written by hand: each claim accuses what breaks it, each mistake is named."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer, list_answers
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.bounds.gradients import ROLES, compute_role_gradients
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.families.alignment import query_key_and_value_get_their_gradients
from headcheck.properties.families.backward import (
    count_held,
    every_block_size_gives_the_same_gradients,
    gradients_are_right_where_later_tokens_are_hidden,
    gradients_stay_right_far_above_or_below,
    it_keeps_fewer_numbers_than_scores,
    its_backward_never_holds_all_scores,
    the_graph_may_be_gone_through_again,
)
from headcheck.properties.families.online import it_never_holds_all_scores
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import BACKWARD, Mistake
from headcheck.properties.mistakes.catalogue.alignment import OPTION
from headcheck.properties.mistakes.catalogue.backward import with_backward
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.faulty_attention import Computation, make_namespace, restate
from headcheck.properties.mistakes.pipeline import CORRECT
from headcheck.properties.mistakes.recognisers.answers import collect_answers
from headcheck.properties.mistakes.recognisers.gradients import recognise_gradients
from headcheck.properties.mistakes.worked_example import work_example
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Violation
from headcheck.reference import causal_lower_right_mask
from tests.properties.mistakes.naming import find_names
from tests.submissions import assert_asked_with, execute, find_broken

EXERCISE = BY_SLUG["flash_attention"]
CONTRACT = EXERCISE.contract
SIZES, HIDDEN = (
    every_block_size_gives_the_same_gradients,
    gradients_are_right_where_later_tokens_are_hidden,
)
FAR, AGAIN = gradients_stay_right_far_above_or_below, the_graph_may_be_gone_through_again
KEPT, HELD = it_keeps_fewer_numbers_than_scores, its_backward_never_holds_all_scores
FORWARD, GRADIENTS = it_never_holds_all_scores, query_key_and_value_get_their_gradients
OWN = (SIZES, HIDDEN, FAR, AGAIN, KEPT, HELD)
RIGHT = [each.name for each in list_answers(EXERCISE, "right")]


def make_harness(name: str) -> Harness:
    namespace = execute(find_answer(EXERCISE, name).source)
    return Harness(make_subject({CONTRACT.name: namespace[CONTRACT.name]}), CONTRACT)


def test_each_claim_is_made_of_backwards_in_tiles_alone() -> None:
    assert_asked_with(Capability.RECOMPUTED, {*OWN})


BROKEN = [
    ("mask_forgotten_backward", {HIDDEN}),
    ("exponentials_without_the_maximum", {FAR}),
    ("saved_logsumexp_overwritten", {AGAIN}),
    ("saved_tensors_deleted", {AGAIN}),
    ("all_three_have_to_ask", {GRADIENTS}),
    ("whole_backward", {HELD}),
    ("slopes_gathered", {HELD}),
    ("weights_of_tiles_saved", {FORWARD, KEPT, HELD}),
    ("autograd_of_the_forward", {KEPT, HELD}),
    ("all_weights_saved", {FORWARD, KEPT, HELD}),
    ("gradient_of_ones", {GRADIENTS, SIZES, HIDDEN, FAR}),
]


@pytest.mark.sampled(("name", "broken"), BROKEN, BROKEN[::4])
def test_each_claim_accuses_what_breaks_it(name: str, broken: set[Property]) -> None:
    function = execute(find_answer(EXERCISE, name).source)[CONTRACT.name]
    assert find_broken(EXERCISE, function, (FORWARD, GRADIENTS, *OWN)) == broken


def test_blocks_of_one_size_alone_break_that_claim() -> None:
    namespace = execute(find_answer(EXERCISE, "rows_outside").source)

    def attend(q: Tensor, k: Tensor, v: Tensor, size: int, causal: bool = False) -> Tensor:
        cut = v if size < v.shape[2] else v.detach()
        output: Tensor = namespace[CONTRACT.name](q, k, cut, size, causal)
        return output

    harness = Harness(make_subject({CONTRACT.name: attend}), CONTRACT)
    case = CONTRACT.fit(Case(tokens=6, heads=2, head_dim=3, block=3))
    GRADIENTS.check(harness.get_context(case))
    with pytest.raises(Violation, match="none reaches it"):
        SIZES.check(harness.get_context(case))


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_hold_much_fewer_numbers_than_there_are_scores(name: str) -> None:
    cases = KEPT.select_cases(CONTRACT, generate_case_set(CONTRACT, EXERCISE.cases))
    context = make_harness(name).get_context(cases[0])
    queries = context.case.tokens
    kept, held = count_held(context)
    assert queries * context.case.d_out <= kept < queries * queries // 20
    assert queries * context.case.block // 4 < held < queries * queries * 3 // 4


def test_a_case_may_say_that_later_tokens_are_hidden() -> None:
    case = CONTRACT.fit(Case(tokens=3, causal=True))
    visible = find_visible(CONTRACT, case, 3, keys=5)
    assert visible is not None and torch.equal(visible, causal_lower_right_mask(3, 5))
    assert find_visible(CONTRACT, replace(case, causal=False), 3, keys=5) is None
    assert not BY_SLUG["online_softmax"].contract.fit(case).causal
    assert CONTRACT.build_arguments(case) == {"block_size": case.block, "causal": True}
    assert not any(each.causal for each in generate_case_set(CONTRACT, EXERCISE.cases))
    assert " causal " in str(case) and " causal " not in str(replace(case, causal=False))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sharpness", [1, 30])
def test_gradients_of_right_answers_are_far_within_their_bounds(dtype: str, sharpness: int) -> None:
    case = Case(batch=2, tokens=40, heads=2, head_dim=5, sharpness=sharpness, dtype=dtype, seed=3)
    ratios = []
    for name in ("rows_outside", "columns_outside", "powers_of_two", "mean_from_the_weights"):
        for block, causal in ((1, False), (7, True), (40, True)):
            case = CONTRACT.fit(replace(case, block=block, causal=causal))
            context = make_harness(name).get_context(case)
            roles = context.x, context.x.flip(1), context.x.roll(1, 1)
            cotangent = draw_normal(case, "cotangent", *context.x.shape).to(torch.float32).double()
            visible = context.may_attend(40, None, 40)
            exact = compute_role_gradients(CONTRACT, case, roles, visible, cotangent)
            for role, found in zip(ROLES, context.adapter.vjp_apart(roles, cotangent), strict=True):
                assert found is not None
                bound = exact.compute_tolerance(role).exact
                ratios.append(float(((found - exact.values[role]).abs() / bound).max()))
    assert 1e-4 < max(ratios) < 0.3


NAMED = [*BACKWARD, *OPTION]


@pytest.mark.sampled("each", NAMED, NAMED[::5], ids=lambda each: each.name)
def test_each_mistake_is_named(each: Mistake) -> None:
    assert all(find_names(way, CONTRACT) == [each.name] for way in each.variants)


def test_the_right_backward_by_hand_is_not_named() -> None:
    restated = restate(CONTRACT)
    namespace = make_namespace(restated, Computation((CORRECT.override(with_backward()),)))
    answers = collect_answers(Harness(make_subject(namespace), restated), "cpu")
    assert recognise_gradients(answers) == ()


def test_a_mask_at_the_wrong_place_is_shown_with_the_option() -> None:
    [found] = diagnose(make_harness("mask_at_the_top_left"))
    shown = work_example(CONTRACT, found.mistake)
    assert shown is not None and shown.sizes.endswith(", causal")
