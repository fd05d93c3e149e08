"""A store keeps everything; what leaves it for students is told at the level of the run."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from exercises import BY_SLUG
from grader.course import grading
from grader.course.export import Gradebook, export
from grader.course.intake.gather import Wanted, gathered
from grader.course.result_lookup import told_results
from grader.course.results import standings
from grader.course.store import manifest
from grader.course.store.store import opened
from grader.grading.grade import Settings
from grader.report.feedback import EVERYTHING, Feedback, Level
from grader.report.records import SubmissionRecord
from grader.seed import given

SETTINGS = Settings(exercise=BY_SLUG["causal_weights"])
WEEK = "week 1"
EXAM = Feedback(Level.NAME, {"it_runs": Level.CASE}, frozenset({"it_is_right"}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "handed in"
    found.mkdir()
    (found / "ada.py").write_text("50 points")
    return found


def graded(place: str, folder: Path, feedback: Feedback | None) -> SubmissionRecord:
    with opened(place, create=True) as store, gathered((str(folder),), Wanted()) as intake:
        report = grading.grade(
            store, intake, SETTINGS, WEEK, attempts="latest", trusted=False, feedback=feedback
        )
    return report.submissions[0]


@pytest.mark.usefixtures("judge")
def test_a_run_remembers_what_it_tells_and_keeps_everything(place: str, folder: Path) -> None:
    assert graded(place, folder, EXAM).diagnosis
    assert graded(place, folder, None).properties[1].message, "said once is enough"
    with opened(place) as store:
        assert store.newest(WEEK).manifest.feedback == EXAM
        assert len(store.runs()) == 1
        [kept] = standings(store.standing(WEEK))
        [told] = told_results(store, WEEK, None)
        [everything] = told_results(store, WEEK, EVERYTHING)
    assert everything.record == kept.record
    assert (told.record.hidden, told.record.diagnosis, told.status) == (1, (), "failed")
    assert told.score == kept.score == 50.0


@pytest.mark.usefixtures("judge")
def test_the_last_word_counts_and_regrading_keeps_it(place: str, folder: Path) -> None:
    graded(place, folder, EXAM)
    graded(place, folder, Feedback(Level.MESSAGE))
    with opened(place) as store:
        chosen = replace(SETTINGS, seed=given(1))
        regraded = grading.regrade(store, WEEK, chosen, trusted=False)
        grading.adopt(store, WEEK, regraded)
        assert store.newest(WEEK).manifest.feedback == Feedback(Level.MESSAGE)
        assert len(store.runs()) == 2


def test_what_is_told_decides_no_verdict() -> None:
    assert manifest.of(SETTINGS).key == manifest.of(SETTINGS, "latest", EXAM).key


def test_a_manifest_that_says_nothing_of_it_tells_everything() -> None:
    text = json.loads(manifest.encoded(manifest.of(SETTINGS)))
    del text["feedback"]
    assert manifest.decoded(json.dumps(text)).feedback == EVERYTHING
    told = manifest.of(SETTINGS, "latest", EXAM)
    assert manifest.decoded(manifest.encoded(told)) == told


@pytest.mark.usefixtures("judge")
def test_github_adds_up_hidden_points_too(place: str, folder: Path) -> None:
    (folder / "bob.py").write_text("100 points")
    graded(place, folder, EXAM)
    with opened(place) as store:
        book = Gradebook(WEEK, tuple(told_results(store, WEEK, None)))
    files = export(book, "github").files
    for name, status, score in (("ada", "fail", 50.0), ("bob", "pass", 100.0)):
        tests = json.loads(base64.b64decode(files[f"{name}.result"]))["tests"]
        assert sum(test["score"] for test in tests) == score
        assert (tests[-1]["name"], tests[-1]["status"]) == ("1 hidden check", status)


@pytest.mark.usefixtures("judge")
def test_feedback_counts_hidden_checks(place: str, folder: Path) -> None:
    graded(place, folder, EXAM)
    with opened(place) as store:
        book = Gradebook(WEEK, tuple(told_results(store, WEEK, None)))
    text = export(book, "moodle-gradebook").files["moodle-gradebook.csv"].decode()
    assert "1 hidden check is not shown; the score counts it." in text
    assert "Not scaled." not in text
