"""What does not move with a module is named in a confined process, too, with its line."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import PropertyRecord
from headcheck.properties.families.device import (
    it_moves_to_another_device,
    it_moves_to_another_dtype,
)
from tests.grader.conftest import GradeText

EXERCISE = BY_SLUG["multi_head_attention"]
ADVICE = (
    '.to() moves parameters and buffers, not other attributes. Keep it with self.register_buffer("'
)


def moved(grade_text: GradeText, answer: str) -> list[PropertyRecord]:
    """What is said of an answer of the bank about moving it."""
    record = grade_text(find_answer(EXERCISE, answer).source, Settings(exercise=EXERCISE))
    names = [it_moves_to_another_dtype.name, it_moves_to_another_device.name]
    return [p for p in record.properties if p.name in names]


@pytest.mark.parametrize(
    ("answer", "status", "name", "line"),
    [
        ("mask_attribute_filled_in_place", "crashed", "future", 33),
        ("mask_attribute_added_in_place", "crashed", "future", 33),
        ("mask_attribute_as_an_index", "failed", "future", None),
    ],
)
def test_unmoved_mask_fails_that_property(
    grade_text: GradeText, answer: str, status: str, name: str, line: int | None
) -> None:
    dtype, device = moved(grade_text, answer)
    assert (dtype.status, dtype.message) == ("passed", "")
    assert (device.status, device.line) == (status, line)
    assert f"`{name}`, of shape (" in device.message
    assert f"stayed on the cpu: {ADVICE}{name}" in device.message


@pytest.mark.parametrize("answer", ["view_and_transpose", "residual_dropout"])
def test_right_answer_moves(grade_text: GradeText, answer: str) -> None:
    found = moved(grade_text, answer)
    assert [(p.status, p.message) for p in found] == [("passed", "")] * 2
