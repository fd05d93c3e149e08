"""A class that answers no exercise is checked in a notebook as the command checks it in a file."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch import nn

from headcheck import check
from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.ui.jupyter import CannotCheck, CheckInterrupted, CheckResult
from headcheck.grader.ui.jupyter.checking import check_in_namespace, make_request
from tests.grader.grading.open_classes import (
    CAUSAL_OTHERWISE,
    HEAD,
    OTHERWISE,
    STRANGE,
    UNKNOWN,
    told,
)
from tests.grader.ui.jupyter.cells import run_cell

NO_SCALE = STRANGE.replace(" / q.shape[-1] ** 0.5", "")


def check_class(source: str, name: str, slug: str | None = None, **options: Any) -> CheckResult:
    namespace = run_cell(HEAD + source)
    return check_in_namespace(namespace[name], make_request(slug, **options), namespace)


def grade_as_file(source: str, folder: Path, settings: Settings) -> SubmissionRecord:
    path = folder / "ada.py"
    path.write_text(HEAD + source, encoding="utf-8")
    with UnconfinedSandbox("a test") as place:
        [record] = grade_file_or_raise(place, Submission(path, path.name), settings)
    return record


CLASSES = [
    (STRANGE, "Blender", None),
    (NO_SCALE, "Blender", None),
    (OTHERWISE, "SelfAttention", None),
    (CAUSAL_OTHERWISE, "CausalAttention", "causal_attention"),
]
"""no exercise, with a mistake, like an exercise, like one in its own terms"""


@pytest.mark.sampled(("source", "name", "slug"), CLASSES, CLASSES[1:2])
def test_the_verdicts_are_those_of_the_command(
    source: str, name: str, slug: str | None, tmp_path: Path
) -> None:
    found = check_class(source, name, slug)
    exercise = Settings() if slug is None else Settings(exercise=BY_SLUG[slug])
    graded = grade_as_file(source, tmp_path, exercise)
    here = found.record
    assert (here.name, here.exercise, here.status) == (name, graded.exercise, graded.status)
    assert [(p.name, p.status, p.points) for p in here.properties] == [
        (p.name, p.status, p.points) for p in graded.properties
    ]
    assert [d.name for d in here.diagnosis] == [d.name for d in graded.diagnosis]
    assert told(here) == told(graded)


def test_what_is_neither_is_told_with_what_was_tried_and_what_to_do() -> None:
    with pytest.raises(CannotCheck) as caught:
        check_class(UNKNOWN, "Linear")
    assert str(caught.value) == (
        "no exercise asks for `Linear(dim)`; not recognised as attention by what it computes: "
        "`Linear` (2 ways to build and call it gave an output, but no attention with its "
        "weights gives this output): say which exercise is meant, as in check(Linear, "
        'exercise="multi_head_attention"); `headcheck list` names all; or say what its arguments '
        'are, as in bind="heads=n_head"'
    )


def test_what_only_resembles_an_exercise_and_is_called_otherwise_is_not_accused() -> None:
    with pytest.raises(
        CannotCheck, match=r"^`linear` takes \(a, b, c\); it should take `linear\(x, "
    ):
        check_class("def linear(a, b, c):\n    return [a, b]\n", "linear")


def test_what_is_said_of_arguments_is_heard() -> None:
    found = check_class(STRANGE, "Blender", bind="causal=yes heads=pieces d_out=width")
    assert [d.name for d in found.record.diagnosis] == ["no_mask"]


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        ("heads", "bind heads: write QUANTITY=ARGUMENT, such as heads=n_head"),
        ("head=n", "bind head=n: there is no quantity 'head'; did you mean 'heads'?"),
        ({"heads": "n"}, "bind is a text, such as \"heads=n_head\", not {'heads': 'n'}"),
    ],
)
def test_what_cannot_be_said_of_arguments_is_told(bind: Any, message: str) -> None:
    with pytest.raises(CannotCheck) as caught:
        check(nn.MultiheadAttention, bind=bind)
    assert str(caught.value) == message


@pytest.mark.whole
def test_an_imported_class_is_judged_as_what_it_is() -> None:
    found = check(nn.MultiheadAttention)
    assert found.passed
    assert found.record.exercise == "attention"


def test_a_class_whose_file_cannot_be_read_any_more_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blending.py").write_text(HEAD + STRANGE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    blending = importlib.import_module("blending")
    (tmp_path / "blending.py").write_bytes(b"PK\x03\x04")
    error = check(blending.Blender).record.error
    assert error is not None
    assert error.message.startswith("`Blender` could not be loaded: The file is a zip archive")


def test_an_interruption_while_it_is_recognised_is_told() -> None:
    source = STRANGE.replace("super().__init__()", "raise KeyboardInterrupt")
    with pytest.raises(
        CheckInterrupted, match=r"^stopped before the first check of Blender was done"
    ):
        check_class(source, "Blender")


def test_progress_says_first_that_it_finds_out_and_then_counts_the_claims(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcheck.grader.ui.jupyter.progress._is_terminal", lambda: True)
    found = check_class(STRANGE, "Blender")
    shown = capsys.readouterr().err
    claims = len(found.record.properties)
    first, then = "checking Blender: finding out", f"checking Blender: 0 of {claims} checks"
    assert -1 < shown.find(first) < shown.find(then)


@pytest.mark.whole
def test_a_module_of_the_name_that_submissions_run_under_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = ModuleType("submission")
    monkeypatch.setitem(sys.modules, "submission", mine)
    assert check_class(STRANGE, "Blender").passed
    assert sys.modules["submission"] is mine
