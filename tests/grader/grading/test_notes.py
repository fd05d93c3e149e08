"""An unused argument is told where it may be why something fails, and nowhere else."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.recording import record_warnings
from headcheck.properties.violations.violation import Status

CAUSAL = BY_SLUG["causal_attention"].contract
MESSAGE = "`__init__` of `CausalAttention` never uses its argument `{}`"


def tell(argument: str, status: Status) -> list[str]:
    warning = {"kind": "unused_argument", "message": MESSAGE.format(argument), "line": 3}
    found = record_warnings([{**warning, "argument": argument}], CAUSAL, status)
    return [note.message for note in found]


@pytest.mark.parametrize("argument", ["dropout", "qkv_bias", "mask"])
def test_of_an_answer_that_fails_an_unused_argument_is_told(argument: str) -> None:
    for status in (Status.FAILED, Status.CRASHED):
        assert tell(argument, status) == [MESSAGE.format(argument)]


def test_a_longest_length_need_not_be_used() -> None:
    assert tell("context_length", Status.FAILED) == []


def test_of_a_right_answer_it_is_not_told() -> None:
    assert tell("dropout", Status.PASSED) == []


def test_other_warnings_are_told_of_right_answers_too() -> None:
    warning = {"kind": "prints", "message": "it prints", "cell": 2, "line": 3}
    [note] = record_warnings([warning], CAUSAL, Status.PASSED)
    assert (note.kind, note.message, note.cell, note.line) == ("prints", "it prints", 2, 3)
