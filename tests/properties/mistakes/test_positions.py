"""Mistakes in positions and limits are named where these are asked for, and only there."""

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.mistakes.catalogue import ALIBI, LIMITED, ROTARY, Mistake
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.pipeline import PipelineState, QKVTensors, StepOverrides
from headcheck.properties.mistakes.steps.positions import placed, right_angles, turn_halves
from headcheck.properties.mistakes.steps.scores import unscaled
from headcheck.properties.mistakes.worked_example import work_example
from tests.properties.mistakes.naming import find_names
from tests.submissions import load_source

OWN = {"rope": ROTARY, "alibi": ALIBI, "softcap": LIMITED}
EACH = [(slug, mistake) for slug, mistakes in OWN.items() for mistake in mistakes]
every_mistake = pytest.mark.sampled(
    ("slug", "each"), EACH, EACH[::3], ids=lambda each: getattr(each, "name", each)
)


@every_mistake
def test_each_is_named(slug: str, each: Mistake) -> None:
    contract = BY_SLUG[slug].contract
    named = [find_names(way, contract) for way in each.variants]
    assert named == [[each.name]] * len(named)


@pytest.mark.parametrize("slug", OWN)
def test_what_is_right_is_not_named(slug: str) -> None:
    assert find_names({}, BY_SLUG[slug].contract) == []


def test_without_positions_none_of_their_mistakes_is_tried() -> None:
    plain = BY_SLUG["multi_head_attention"].contract
    assert find_names({"place": placed(1, 0)}, plain) == []
    assert find_names({"place": placed(1, 1)}, plain) == []


# ------------------------------------------------------------------------- angles in float32


def turned_in_float32(s: PipelineState) -> QKVTensors:
    def turn(t: Tensor) -> Tensor:
        return turn_halves(t, right_angles(s, t.float()))

    query, key, value = s.roles
    return turn(query), turn(key), value


def test_mistakes_are_named_where_angles_are_in_float32() -> None:
    contract = BY_SLUG["rope"].contract
    assert find_names({"place": turned_in_float32}, contract) == []
    unscaled_too: StepOverrides = {"place": turned_in_float32, "scale": unscaled}
    assert find_names(unscaled_too, contract) == ["no_scale"]


def test_without_positions_answers_have_to_be_explained_exactly() -> None:
    def nearly_unscaled(s: PipelineState) -> Tensor:
        return s.raw_scores * (1 + 1e-6)

    contract = BY_SLUG["softcap"].contract
    assert find_names({"scale": nearly_unscaled}, contract) == []
    assert find_names({"scale": nearly_unscaled}, BY_SLUG["rope"].contract) == ["no_scale"]


# ------------------------------------------------------------------------------- small examples


@every_mistake
def test_examples_are_of_what_is_asked_for(slug: str, each: Mistake) -> None:
    found = work_example(BY_SLUG[slug].contract, each)
    if found is not None:
        assert found.right != found.wrong


def test_the_numbers_of_an_example_are_those_of_the_limit() -> None:
    found = work_example(BY_SLUG["softcap"].contract, LIMITED[0])
    assert found is not None and found.result == "scores"
    numbers = [[[float(n) for n in row] for row in m] for m in (found.before, found.right)]
    products, scores = (torch.tensor(rows) for rows in numbers)
    cap = 2.0
    torch.testing.assert_close(scores, cap * torch.tanh(products / 2 / cap), atol=0.005, rtol=0)


def test_a_table_over_the_heads_which_crashes_elsewhere_is_no_lack_of_positions() -> None:
    exercise = BY_SLUG["rope"]
    source = exercise.solution
    faulty = source.replace("tokens, half = t.shape[2]", "tokens, half = t.shape[1]")
    assert faulty != source
    assert diagnose(load_source(faulty, exercise.contract)) == ()
