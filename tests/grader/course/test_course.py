"""A course graded into a store: resumed, regraded, replayed. A judge without a sandbox judges."""

import os
import random
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.contract_file import load_exercise
from headcheck.grader import run
from headcheck.grader.course import CourseError, grading, regrading
from headcheck.grader.course.intake.gather import IntakeOptions, gather_submissions
from headcheck.grader.course.result_lookup import load_results
from headcheck.grader.course.results import ExerciseResult, compare_results
from headcheck.grader.course.store import manifest
from headcheck.grader.course.store.records import Override
from headcheck.grader.course.store.store import Store, open_store
from headcheck.grader.grading import worker_pool
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.points import compute_maximum, score_again
from headcheck.grader.report.records import (
    PropertyRecord,
    Report,
    SeedRecord,
    SubmissionRecord,
    get_version,
    strip_seconds,
    to_json,
)
from headcheck.grader.seed import Seed, SeedKind, draw_secret_seed, make_seed
from tests.grader.course.gradebooks import MakeRecord, make_standing

SETTINGS = Settings(exercise=BY_SLUG["causal_weights"])


class Course:
    """A class of four, a store, and a judge without a sandbox."""

    def __init__(self, url: str, folder: Path, judge: Any) -> None:
        self.url, self.folder, self.judge = url, folder, judge
        folder.mkdir()
        for student, text in {"ada": "100", "bob": "50", "eve": "0", "zoe": "100 too"}.items():
            (folder / f"{student}.py").write_text(text)

    def open(self, **more: bool) -> AbstractContextManager[Store]:
        return open_store(self.url, **more)

    def grade(self, *folders: Path, chosen: Settings = SETTINGS, **wanted: Any) -> Report:
        attempts = wanted.get("attempts", "latest")
        paths = [str(each) for each in folders or [self.folder]]
        with (
            self.open(create=True) as store,
            gather_submissions(paths, IntakeOptions(**wanted)) as intake,
        ):
            return grading.grade(store, intake, chosen, "week 1", attempts=attempts, trusted=False)

    def load_scores(self) -> dict[str, float]:
        with self.open() as store:
            return {each.student: each.score for each in load_results(store, "week 1")}


@pytest.fixture
def course(store_url: str, tmp_path: Path, fake_grader: Any) -> Course:
    return Course(store_url, tmp_path / "class", fake_grader)


def test_graded_submissions_are_reported_and_stored(course: Course) -> None:
    report = course.grade()
    assert [(s.student, s.file, s.score) for s in report.submissions] == [
        ("ada", "ada.py", 100.0),
        ("bob", "bob.py", 50.0),
        ("eve", "eve.py", 0.0),
        ("zoe", "zoe.py", 100.0),
    ]
    assert report.sandbox and report.sandbox.rung == "A"
    assert course.load_scores() == {"ada": 100.0, "bob": 50.0, "eve": 0.0, "zoe": 100.0}


def test_results_are_in_the_order_of_names(course: Course) -> None:
    for student in ("Émile", "Zoé", "Łukasz", "s9", "s10", "李"):
        (course.folder / f"{student}.py").write_text("50")
    course.grade()
    names = ["ada", "bob", "Émile", "eve", "Łukasz", "s9", "s10", "Zoé", "zoe", "李"]
    assert list(course.load_scores()) == names


def test_only_changed_files_are_regraded(course: Course) -> None:
    first = course.grade()
    assert course.grade() == first
    assert len(course.judge.graded_texts) == 4
    (course.folder / "bob.py").write_text("100 at last")
    (course.folder / "ida.py").write_text("50")  # what bob had before
    course.grade()
    assert course.judge.graded_texts[4:] == ["100 at last"]
    assert course.load_scores()["bob"] == 100.0 and course.load_scores()["ida"] == 50.0
    course.grade(chosen=replace(SETTINGS, limit_overrides={"total_s": 9.0}))
    assert len(course.judge.graded_texts) == 10


def test_what_could_not_be_judged_is_shown_and_judged_by_the_next_command(course: Course) -> None:
    course.judge.busy = {"bob", "eve"}
    report = course.grade()
    said = {each.student: (each.status, each.score) for each in report.submissions}
    assert said["bob"] == said["eve"] == ("not_judged", 0.0)
    assert said["ada"] == ("passed", 100.0)
    with course.open() as store:
        results = {each.student: each.is_judged for each in load_results(store, "week 1")}
        assert results == {"ada": True, "bob": False, "eve": False, "zoe": True}
        chosen = store.load_newest_run("week 1").manifest.settings
        with pytest.raises(CourseError, match="not judged: the machine was busy"):
            regrading.regrade(store, "week 1", chosen, trusted=False)
    course.judge.busy = set()
    before = len(course.judge.graded_texts)
    again = course.grade()
    assert [each.status for each in again.submissions] == ["passed", "failed", "failed", "passed"]
    assert len(course.judge.graded_texts) == before + 2, "only these are judged again"
    assert course.load_scores() == {"ada": 100.0, "bob": 50.0, "eve": 0.0, "zoe": 100.0}


def test_run_draws_one_secret_seed_and_keeps_it(course: Course) -> None:
    def again(**changes: Any) -> Seed:
        course.grade(chosen=replace(SETTINGS, seed=draw_secret_seed(), **changes))
        with course.open() as store:
            return store.load_newest_run("week 1").manifest.case_seed

    first = again()
    assert first.kind is SeedKind.SECRET
    assert again() == first and len(course.judge.graded_texts) == 4
    assert again(limit_overrides={"total_s": 9.0}) == first, "other settings, the same cases"
    with course.open() as store:
        chosen = store.load_newest_run("week 1").manifest.settings
        assert regrading.regrade(store, "week 1", chosen, trusted=False).score_changes == []
        assert chosen.seed == first and len(course.judge.graded_texts) == 8
        assert regrading.replay(store, "week 1", "bob", trusted=False).same
    assert course.judge.seeds == {first}


def test_given_seed_starts_a_run_that_is_then_continued(course: Course) -> None:
    for chosen in (draw_secret_seed(), make_seed(5), draw_secret_seed()):
        report = course.grade(chosen=replace(SETTINGS, seed=chosen))
    assert report.seed == SeedRecord("given", 5)
    with course.open() as store:
        assert [run.manifest.seed_kind for run in store.list_runs()] == [
            SeedKind.SECRET,
            SeedKind.GIVEN,
        ]


def test_run_without_a_secret_seed_is_restarted(course: Course) -> None:
    old = replace(manifest.build_manifest(SETTINGS), seed_kind=None)
    text = manifest.encode(old).replace('"seed_kind":null,', "")
    assert "seed_kind" not in text and manifest.decode(text) == old
    assert manifest.decode(text).case_seed == Seed()
    with course.open(create=True) as store:
        store.begin("week 1", old)
    report = course.grade(chosen=replace(SETTINGS, seed=draw_secret_seed()))
    assert report.seed and report.seed.kind == "secret"


def test_concurrent_runs_share_one_seed(course: Course) -> None:
    wanted = [manifest.build_manifest(replace(SETTINGS, seed=draw_secret_seed())) for _ in range(2)]
    with course.open(create=True) as one, course.open() as other:
        begun = [one.resume("week 1", wanted[0]), other.resume("week 1", wanted[1])]
        assert begun[0] == begun[1] and len(one.list_runs()) == 1


def test_unreadable_files_are_reported_and_others_graded(course: Course) -> None:
    (course.folder / "lea.py").symlink_to(course.folder / "ada.py")
    (course.folder / "tom.zip").write_bytes(b"no zip")
    records = {s.student: s for s in course.grade().submissions}
    assert len(records) == 6
    for student, message in (("lea", "symbolic link"), ("tom", "not a readable zip archive")):
        error = records[student].error
        assert error is not None and message in error.message
        # worth what the exercise is worth, so that nothing is what they have of it
        assert (records[student].score, records[student].max_score) == (0.0, 67.0)
    assert course.grade().submissions == tuple(records.values())


def test_file_changed_during_grading_is_graded_next_time(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = worker_pool.grade_all

    def changing(*arguments: Any) -> Any:
        for each, records in judged(*arguments):
            if each.path.name == "bob.py":
                each.path.write_text("100 quickly")
            yield each, records

    monkeypatch.setattr(worker_pool, "grade_all", changing)
    report = course.grade()
    assert [s.student for s in report.submissions] == ["ada", "eve", "zoe"]
    monkeypatch.setattr(worker_pool, "grade_all", judged)
    assert [s.score for s in course.grade().submissions] == [100.0, 100.0, 0.0, 100.0]


def test_latest_attempt_replaces_the_previous_one(course: Course, tmp_path: Path) -> None:
    for name in ("ada_1_1_hw.py", "ada_1_1_hw-1.py"):
        (tmp_path / "canvas").mkdir(exist_ok=True)
        (tmp_path / "canvas" / name).write_text("50" if "-1" in name else "100")
        course.grade(tmp_path / "canvas")
    assert course.load_scores() == {"1": 50.0}
    course.grade(tmp_path / "canvas", attempts="best")
    assert course.load_scores() == {"1": 100.0}


# ------------------------------------------------------------------------ kill -9


def forked(action: Callable[[], object]) -> int:
    """Do something in another process; its number. It ends with 0 if nothing was raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of xdist are elsewhere
        pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def killed(action: Callable[[], object], after: float) -> bool:
    """Do something in another process and kill that after some seconds; whether it was faster."""
    pid = forked(action)
    time.sleep(after)
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        assert status == 0
        return True
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def test_kill_at_any_moment_loses_and_repeats_no_finished_work(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # the killed ones leave folders
    folder = tmp_path / "large class"
    folder.mkdir()
    for i in range(40):
        (folder / f"s{i:03}.py").write_text(f"{(0, 50, 100)[i % 3]} number {i}")
    chance = random.Random(0)
    kills, finished = 0, 0
    while not killed(lambda: course.grade(folder), after=chance.uniform(0.0, 0.2)):
        kills += 1
        with course.open(create=True) as store:
            count = len(store.load_graded_files("week 1"))
        assert count >= finished, "something finished was lost"
        finished = count
        if kills == 8:
            course.grade(folder)
            break
    resumed = course.grade(folder)
    # At most the one in hand is judged again after a kill; nothing that was finished is.
    assert 40 <= len(course.judge.graded_texts) <= 40 + kills
    other = Course(str(tmp_path / "undisturbed.db"), tmp_path / "other", course.judge)
    undisturbed = other.grade(folder)
    assert to_json(strip_seconds(resumed)) == to_json(strip_seconds(undisturbed))


# ------------------------------------------------------------------------ again


def test_regrade_preview_changes_nothing(course: Course) -> None:
    course.grade()
    for path in course.folder.iterdir():
        path.unlink()  # the store has what it needs
    before = course.load_scores()
    with course.open() as store:
        store.add_decisions([Override("week 1", "ada", "causal_weights", 99.0, "", "prof")])
        # For the judge of these tests: 50 points fewer.
        other = replace(SETTINGS, seed=make_seed(1))
        again = regrading.regrade(store, "week 1", other, trusted=False)
        assert [(c.student, c.before, c.after) for c in again.score_changes] == [
            ("bob", 50.0, 0.0),
            ("zoe", 100.0, 50.0),
        ], "what a person decided stays, so ada loses nothing"
        assert len(store.list_runs()) == 1 and len(course.judge.graded_texts) == 8
    assert course.load_scores() == before | {"ada": 99.0}

    with course.open() as store:
        again = regrading.regrade(store, "week 1", other, trusted=False)
        assert len(course.judge.graded_texts) == 8, (
            "what was judged to be shown is not judged again"
        )
        regrading.adopt(store, "week 1", again)
        assert len(store.list_runs()) == 2
    assert course.load_scores() == {"ada": 99.0, "bob": 0.0, "eve": 0.0, "zoe": 50.0}


def test_nothing_changes_with_the_same_settings(course: Course) -> None:
    (course.folder / "tom.zip").write_bytes(b"no zip")
    course.grade()
    with course.open() as store:
        again = regrading.regrade(store, "week 1", SETTINGS, trusted=False)
        assert again.score_changes == [] and len(course.judge.graded_texts) == 4
        assert regrading.adopt(store, "week 1", again).id == 1
        assert len(store.load_graded_files("week 1")) == 5


def make_judged(failing: str = "") -> SubmissionRecord:
    """A record of a real answer to the exercise, as the grader makes it."""
    exercise = SETTINGS.exercise
    assert exercise is not None
    claims = tuple(
        PropertyRecord(p.name, p.claim, p.group, "failed" if p.name == failing else "passed", 0, 0)
        for p in exercise.properties
    )
    status = "failed" if failing else "passed"
    record = SubmissionRecord("a.py", "a", exercise.slug, "f", 0, 0, status, 0.1, claims)
    return score_again(record, exercise, None, 0.01)


def test_points_and_rounding_start_no_worker(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"ada": make_judged(), "bob": make_judged("bfloat16_runs"), "eve": make_judged()}
    course.judge.record = lambda student, *_: answers.get(student, answers["ada"])
    (course.folder / "tom.zip").write_bytes(b"no zip")
    course.grade()
    judged = course.judge.graded_texts
    monkeypatch.setattr(run, "create_sandbox", None)  # whoever calls it fails
    monkeypatch.setattr(grading, "precompile_plans", None)
    before = course.load_scores()
    for changes in (
        {"points": {"causal_weights": {"precision": 20.0}}},
        {"rounding": 0.5},
        {"points": {"causal_weights": {"values": 0.25}}, "rounding": 1.0},
    ):
        chosen = replace(SETTINGS, **changes)
        with course.open() as store:
            again = regrading.regrade(store, "week 1", chosen, trusted=False)
            assert course.load_scores() == before
            regrading.adopt(store, "week 1", again)
            newest = store.load_newest_run("week 1").manifest
            assert newest.sandbox is not None and newest.settings.rounding == chosen.rounding
            files = store.load_graded_files("week 1")
        before = course.load_scores()
        most = compute_maximum(BY_SLUG["causal_weights"], chosen.points)
        assert {record.max_score for each in files for record in each.records} == {most}
        assert before["ada"] == most > before["bob"] > 0
        assert course.load_scores() == {
            each.student: each.score for each in course.grade(chosen=chosen).submissions
        }
    assert course.judge.graded_texts == judged


def test_points_of_a_contract_start_no_worker(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.judge.record = lambda *_: replace(make_judged("bfloat16_runs"), exercise="own_weights")
    own = tmp_path / "own_weights"
    shutil.copytree(BY_SLUG["causal_weights"].folder, own)
    course.grade(chosen=Settings(exercise=load_exercise(own)))
    judged, before = course.judge.graded_texts, course.load_scores()
    monkeypatch.setattr(run, "create_sandbox", None)
    contract = own / "contract.toml"
    text = contract.read_text()
    assert "[points]" not in text
    contract.write_text(f"# Points are other ones.\n{text}\n[points]\nprecision = 50\n")
    course.grade(chosen=Settings(exercise=load_exercise(own)))
    assert course.load_scores()["ada"] > before["ada"] > 0
    assert course.judge.graded_texts == judged


def test_shares_are_compared_where_the_maximum_changed(record: MakeRecord) -> None:
    def results(points: float, most: float) -> list[ExerciseResult]:
        return [make_standing("ada", replace(record("ada"), score=points, max_score=most))]

    [change] = compare_results(results(50, 100), results(75, 200))
    assert (change.gain, change.maxima) == (-12.5, (100, 200))
    assert compare_results(results(33.33, 100), results(66.67, 200)) == []
    assert compare_results(results(50, 100), results(50, 100)) == []
    [change] = compare_results(results(50, 100), results(50.5, 100))
    assert (change.gain, change.maxima) == (0.5, None)
    [change] = compare_results(results(0, 0), results(50, 100))
    assert change.gain == 50


def test_replay_reproduces_verdicts_and_writes_nothing(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.grade()
    with course.open() as store:
        again = regrading.replay(store, "week 1", "bob", trusted=False)
        assert again.same and again.differences == ()
        assert course.judge.graded_texts[-1] == "50" and len(store.list_runs()) == 1
        monkeypatch.setattr(manifest, "get_version", lambda: "9.9")
        monkeypatch.setattr(manifest, "digest_source", lambda: "other")
        monkeypatch.setattr(manifest, "digest_cases", lambda _: "other")
        record = course.judge.record
        course.judge.record = lambda *arguments: replace(record(*arguments), status="crashed")
        again = regrading.replay(store, "week 1", "bob", trusted=False)
        assert not again.same
        assert again.differences == (
            f"headcheck {get_version()} then, 9.9 now",
            "the checks have changed",
            "the cases have changed",
        )
