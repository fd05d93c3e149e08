"""The usual depth asks a part of what a thorough check asks, and no group goes without a check."""

import pickle

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.grader.report.points import compute_maximum
from headcheck.properties.families import ALL as PROPERTIES
from headcheck.properties.terms.depth import Depth

SHORT = pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.slug)


@SHORT
def test_usual_cases_are_some_of_the_thorough_ones(exercise: Exercise) -> None:
    whole, some = exercise.plan_cases(), exercise.at(Depth.USUAL).plan_cases()
    assert some.keys() <= whole.keys()
    assert all(set(cases) <= set(whole[prop]) for prop, cases in some.items())
    assert all(cases for prop, cases in some.items() if whole[prop])


@SHORT
def test_points_rest_on_checks_of_the_usual_depth(exercise: Exercise) -> None:
    usual = exercise.at(Depth.USUAL)
    assert {p.group for p in usual.properties} == {p.group for p in exercise.properties}
    decisive = [p for p in exercise.properties if p.essential or p.about is not None]
    assert set(decisive) <= set(usual.properties)
    assert usual.prerequisite is exercise.prerequisite
    assert compute_maximum(usual, None) == compute_maximum(exercise, None)


def test_what_the_mission_names_is_asked_at_the_usual_depth() -> None:
    names = {
        "the_weights_sum_to_one", "the_future_is_invisible", "each_head_fills_only_its_own_part",
        "it_equals_torch_s_attention", "the_gradient_of_the_input_is_right",
        "the_gradients_of_the_weights_are_right", "dropout_drops_the_stated_share",
        "scores_in_the_millions_are_survived", "it_moves_to_another_device",
        "the_input_is_left_unchanged", "its_state_dict_carries_everything",
    }  # fmt: skip
    assert names <= {prop.name for prop in PROPERTIES if prop.usual}


def test_an_exercise_has_one_object_for_each_depth() -> None:
    exercise = BY_SLUG["causal_attention"]
    usual = exercise.at(Depth.USUAL)
    assert usual is exercise.at(Depth.USUAL) is pickle.loads(pickle.dumps(usual))
    assert usual.at(Depth.THOROUGH) is exercise is exercise.at(Depth.THOROUGH)
