"""Padding: each property accuses what breaks it, and nothing else."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.families import ALL
from headcheck.properties.families.masking import (
    a_mask_of_ones_is_no_mask,
    the_mask_is_not_remembered,
)
from headcheck.properties.families.padding import (
    a_sequence_of_padding_spoils_no_other,
    padding_is_invisible,
    padding_may_stand_on_either_side,
)
from headcheck.properties.families.results import the_mask_may_be_left_out
from headcheck.properties.property import Property
from tests.submissions import holds

pytestmark = pytest.mark.filterwarnings("ignore")

EXERCISE = BY_SLUG["padding_mask"]
INVISIBLE, EITHER_SIDE = padding_is_invisible, padding_may_stand_on_either_side
NO_OTHER = a_sequence_of_padding_spoils_no_other
OWN = (INVISIBLE, EITHER_SIDE, NO_OTHER)
MASKED = (a_mask_of_ones_is_no_mask, the_mask_is_not_remembered, the_mask_may_be_left_out)


def test_they_belong_to_masks_of_keys_alone() -> None:
    for exercise in BY_SLUG.values():
        has = exercise.contract.has(Capability.PADDING)
        assert all((prop in exercise.properties) is has for prop in OWN)
    assert set(OWN) <= set(ALL)


@pytest.mark.parametrize("slug", ["padding_mask", "masked_multi_head"])
def test_masks_of_both_kinds_may_be_left_out_and_are_not_kept(slug: str) -> None:
    assert set(MASKED) <= set(BY_SLUG[slug].properties)


@pytest.mark.parametrize("name", ["view_and_transpose", "fused_kernel", "padding_cut_out"])
@pytest.mark.parametrize("prop", [*OWN, *MASKED], ids=lambda prop: prop.name)
def test_right_answers_are_accepted(prop: Property, name: str) -> None:
    assert holds(prop, EXERCISE, name)


@pytest.mark.parametrize(
    ("prop", "name"),
    [
        (INVISIBLE, "mask_ignored"),
        (INVISIBLE, "mask_inverted"),
        (INVISIBLE, "fills_with_minus_ten"),
        (INVISIBLE, "masked_after_softmax"),
        (INVISIBLE, "values_zeroed"),
        (INVISIBLE, "first_head_alone_masked"),
        (EITHER_SIDE, "padding_taken_for_last"),
        (EITHER_SIDE, "padding_taken_for_first"),
        (EITHER_SIDE, "tokens_zeroed"),
        (EITHER_SIDE, "scores_times_mask"),
        (NO_OTHER, "nan_replaced_for_the_whole_batch"),
        (NO_OTHER, "mask_dropped_for_a_sequence_of_padding"),
        (NO_OTHER, "refuses_a_sequence_of_padding"),
        (NO_OTHER, "hidden_where_any_has_padding"),
        (a_mask_of_ones_is_no_mask, "mask_inverted"),
        (the_mask_is_not_remembered, "mask_remembered"),
        (the_mask_may_be_left_out, "mask_needed"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_wrong_answers_are_accused(prop: Property, name: str) -> None:
    assert not holds(prop, EXERCISE, name)


@pytest.mark.parametrize(
    ("prop", "name"),
    [
        (INVISIBLE, "outputs_zeroed"),
        (INVISIBLE, "no_scale"),
        (EITHER_SIDE, "outputs_zeroed"),
        (EITHER_SIDE, "nan_replaced_for_the_whole_batch"),
        (NO_OTHER, "mask_ignored"),
        (NO_OTHER, "outputs_zeroed"),
    ],
)
def test_other_mistakes_are_not_theirs(prop: Property, name: str) -> None:
    assert holds(prop, EXERCISE, name)
