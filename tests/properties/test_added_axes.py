"""Answers without a batch read of results as they return them."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.check import drop_added_axes
from headcheck.properties.violations.violation import Violation, ViolationKind

ALONE = BY_SLUG["self_attention_v2"].contract
BATCHED = BY_SLUG["causal_attention"].contract


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("output[0, 1, 2]", "output[1, 2]"),
        ("output[0, 0, 2] after a change", "output[0, 2] after a change"),
        ("weights[0, 0, 1, 2]", "weights[1, 2]"),
        ("gradient[0, 1] of W_q", "gradient[0, 1] of W_q"),
        ("output", "output"),
    ],
)
def test_an_index_has_the_axes_of_the_result(where: str, shown: str) -> None:
    violation = Violation(ViolationKind.VALUE, "1", "2", where)
    assert drop_added_axes(violation, ALONE).where == shown
    assert drop_added_axes(violation, BATCHED).where == where


def test_so_has_a_shape() -> None:
    violation = Violation(ViolationKind.SHAPE, "shape (1, 4, 2)", "shape (1, 4, 3)", "output")
    shown = drop_added_axes(violation, ALONE)
    assert (shown.expected, shown.got) == ("shape (4, 2)", "shape (4, 3)")
    assert drop_added_axes(violation, BATCHED).got == "shape (1, 4, 3)"
    weight = Violation(ViolationKind.SHAPE, "shape (4, 2)", "shape (1, 4, 3)", "output")
    assert drop_added_axes(weight, ALONE).got == "shape (1, 4, 3)"
