"""A store keeps everything; what leaves it for students is told at the level of the run."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.course import grading, regrading
from headcheck.grader.course.export import Gradebook, export
from headcheck.grader.course.intake.gather import IntakeOptions, gather_submissions
from headcheck.grader.course.result_lookup import load_released_results
from headcheck.grader.course.results import compute_results
from headcheck.grader.course.store.store import open_store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.feedback import FULL_FEEDBACK, Feedback, FeedbackLevel
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.seed import make_seed

SETTINGS = Settings(exercise=BY_SLUG["causal_weights"])
WEEK = "week 1"
EXAM = Feedback(FeedbackLevel.NAME, {"it_runs": FeedbackLevel.CASE}, frozenset({"it_is_right"}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "handed in"
    found.mkdir()
    (found / "ada.py").write_text("50 points")
    return found


def graded(store_url: str, folder: Path, feedback: Feedback | None) -> SubmissionRecord:
    with (
        open_store(store_url, create=True) as store,
        gather_submissions((str(folder),), IntakeOptions()) as intake,
    ):
        report = grading.grade(
            store, intake, SETTINGS, WEEK, attempts="latest", trusted=False, feedback=feedback
        )
    return report.submissions[0]


def load_book(store_url: str) -> Gradebook:
    with open_store(store_url) as store:
        return Gradebook(WEEK, tuple(load_released_results(store, WEEK, None)))


@pytest.mark.usefixtures("fake_grader")
def test_run_remembers_its_feedback_level_and_stores_everything(
    store_url: str, folder: Path
) -> None:
    assert graded(store_url, folder, EXAM).diagnosis
    assert graded(store_url, folder, None).properties[1].message, "said once is enough"
    with open_store(store_url) as store:
        assert store.load_newest_run(WEEK).manifest.feedback == EXAM
        assert len(store.list_runs()) == 1
        [kept] = compute_results(store.load_graded_files(WEEK))
        [told] = load_released_results(store, WEEK, None)
        [everything] = load_released_results(store, WEEK, FULL_FEEDBACK)
    assert everything.record == kept.record
    assert (told.record.hidden, told.record.diagnosis, told.status) == (1, (), "failed")
    assert told.score == kept.score == 50.0


@pytest.mark.usefixtures("fake_grader")
def test_latest_feedback_level_counts_and_survives_regrading(store_url: str, folder: Path) -> None:
    graded(store_url, folder, EXAM)
    graded(store_url, folder, Feedback(FeedbackLevel.MESSAGE))
    with open_store(store_url) as store:
        chosen = replace(SETTINGS, seed=make_seed(1))
        regraded = regrading.regrade(store, WEEK, chosen, trusted=False)
        regrading.adopt(store, WEEK, regraded)
        assert store.load_newest_run(WEEK).manifest.feedback == Feedback(FeedbackLevel.MESSAGE)
        assert len(store.list_runs()) == 2


@pytest.mark.usefixtures("fake_grader")
def test_github_adds_up_hidden_points_too(store_url: str, folder: Path) -> None:
    (folder / "bob.py").write_text("100 points")
    graded(store_url, folder, EXAM)
    files = export(load_book(store_url), "github").files
    for name, status, score in (("ada", "fail", 50.0), ("bob", "pass", 100.0)):
        tests = json.loads(base64.b64decode(files[f"{name}.result"]))["tests"]
        assert sum(test["score"] for test in tests) == score
        assert (tests[-1]["name"], tests[-1]["status"]) == ("1 hidden check", status)


@pytest.mark.usefixtures("fake_grader")
def test_feedback_counts_hidden_checks(store_url: str, folder: Path) -> None:
    graded(store_url, folder, EXAM)
    text = export(load_book(store_url), "moodle-gradebook").files["moodle-gradebook.csv"].decode()
    assert "1 hidden check is not shown; the score counts it." in text
    assert "Not scaled." not in text
