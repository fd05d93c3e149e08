"""Every way to crash is called by its name, and none by another's."""

import io
import sys
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.grader.sandbox.sentences import SENTENCES
from tests.crashes.judging import CrashingAnswer, crash, load_table

CRASHES = load_table("crashes.toml")
STRANGERS = load_table("strangers.toml")
UNUSUAL = load_table("unusual.toml")
ONCE = {answer.told: name for name, answer in CRASHES.items()}
"""one crash of each name"""
MIN_RIGHT_OF_STRANGERS = 12


@pytest.fixture(autouse=True)
def nobody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read nothing, as a worker does; pytest's own input raises something else."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())


def must_be_told(answer: CrashingAnswer) -> None:
    failure = crash(answer)
    assert failure is not None, "it does not crash"
    assert (failure.crash.sentence if failure.crash else None) == SENTENCES.get(answer.told)
    assert answer.says in str(failure.crash)


@pytest.mark.sampled("name", list(CRASHES), list(ONCE.values()))
def test_a_crash_is_called_by_its_name(name: str) -> None:
    must_be_told(CRASHES[name])


@pytest.mark.parametrize("name", STRANGERS)
def test_crashes_that_the_catalogue_was_not_made_for(name: str) -> None:
    must_be_told(STRANGERS[name])


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_raised_for_reasons_of_its_own_gets_no_name(name: str) -> None:
    must_be_told(UNUSUAL[name])


def test_every_sentence_is_said_of_some_crash() -> None:
    assert set(ONCE) == set(SENTENCES)
    assert {answer.exercise for answer in CRASHES.values()} == set(BY_SLUG)


def test_most_crashes_of_strangers_are_called_by_their_names() -> None:
    right = [name for name, answer in STRANGERS.items() if answer.told == answer.named]
    assert len(right) == MIN_RIGHT_OF_STRANGERS


# ------------------------------------------------------------------------ in a report


def grade(server: ServerHandle, folder: Path, answer: CrashingAnswer) -> SubmissionRecord:
    path = folder / "ada.py"
    path.write_text(answer.source, encoding="utf-8")
    [handed_in] = find_submissions([str(path)])
    [record] = grade_file_or_raise(server, handed_in, Settings())
    assert record.exercise == answer.exercise
    return record


@pytest.mark.whole
@pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")
def test_a_report_says_why_and_without_the_case_only_the_sentence(
    server: ServerHandle, tmp_path: Path
) -> None:
    record = grade(server, tmp_path, STRANGERS["mask_forgotten_to_be_cut_in_place"])
    failed = next(p for p in record.properties if p.status == "crashed")
    sentence = SENTENCES["mask_not_cut"]
    assert f"\n  because   {sentence}: `attn_scores` is (" in failed.message
    assert "with a context_length of" in failed.message and failed.line is not None
    # The last row: a hint of the property could point elsewhere.
    assert failed.words.endswith(f"\n  because   {sentence}.")
    assert "\n  hint " not in failed.message


@pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")
def test_what_cannot_be_loaded_says_why(server: ServerHandle, tmp_path: Path) -> None:
    record = grade(server, tmp_path, CRASHES["nn_not_imported"])
    assert record.repair is not None
    assert record.repair.stopped.endswith("without importing it: `nn` (torch.nn).")
