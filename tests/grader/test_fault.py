"""A fault of our own: one line on one file, and the rest of a class is judged."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headcheck.grader.grading import definition_grader
from headcheck.grader.grading.attempts import check_properties
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.worker_pool import grade_all
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import build_report, compute_exit_code
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox

RIGHT = "import torch\ndef simplified_attention(x):\n    return torch.softmax(x @ x.T, -1) @ x\n"
WRONG = RIGHT.replace("-1", "0")


def breaks(*_: Any) -> Any:
    raise ZeroDivisionError("a\nfault")


@pytest.fixture
def class_of_three(tmp_path: Path) -> list[str]:
    for name, text in (("ada", RIGHT), ("bob", WRONG), ("cyd", RIGHT)):
        (tmp_path / f"{name}.py").write_text(text)
    return [str(tmp_path)]


def test_internal_error_does_not_stop_other_submissions(
    class_of_three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_grader, "check_properties", broken_on(check_properties, 2))
    with UnconfinedSandbox("for a test") as place:
        found = grade_all(place, find_submissions(class_of_three), Settings(jobs=1))
        records = [record for _, those in found for record in those]
    assert [record.status for record in records] == ["passed", "not_judged", "passed"]
    error = records[1].error
    assert error is not None and error.kind == "fault"
    assert error.message.startswith(
        "an internal error of headcheck, please report it: ZeroDivisionError: a fault "
        "(test_fault.py:"
    )
    assert records[1].score == 0 and not records[1].properties
    assert compute_exit_code(build_report(records)) == 2


def broken_on(findings: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The same function, which breaks when it is called for the n-th time."""
    calls = itertools.count(1)

    def fails(*given: Any) -> Any:
        return breaks() if next(calls) == number else findings(*given)

    return fails
