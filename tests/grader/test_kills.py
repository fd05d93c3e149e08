"""Any process of a run, killed at any moment: the right report, or one line that says why not.

`pytest -m deep tests/grader/test_kills.py` kills two hundred times; HEADCHECK_KILLS is the seed.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading import diagnosis
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import Report
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from tests.commands import RIGHT
from tests.grader.conftest import SandboxDriver
from tests.grader.kills import (
    KINDS,
    SLUG,
    WITHIN_S,
    GradingRun,
    RunResult,
    parse_report,
    write_class,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
SEED = int(os.environ.get("HEADCHECK_KILLS", "0"))
SLOW = 10
"""so many times what an undisturbed run took is never needed, even if the machine got other work"""
EACH = 40
"""so often a process of each kind is killed in the deep test"""


@dataclass(frozen=True)
class Course:
    """Files to grade, what an undisturbed run says of them, and how long it took."""

    answers: Path
    report: Report
    code: int
    seconds: float


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    folder = tmp_path_factory.mktemp("undisturbed")
    answers = write_class(folder / "class", 6)
    with closing(GradingRun(folder, answers)) as run:
        end = run.wait(600)
        assert end is not None
        assert (end.code, end.err) == (1, "")
        assert run.wait_for_leftovers() == {}
        return Course(answers, parse_report(end), end.code, end.seconds)


def chances(count: int) -> Iterator[tuple[str, random.Random]]:
    for i in range(count):
        for kind in KINDS:
            yield kind, random.Random(f"{SEED} {kind} {i}")


def signalled(
    run: GradingRun, kind: str, chance: random.Random, seconds: float, number: signal.Signals
) -> int | None:
    """Signal a process of this kind at a random moment; None if the run ended before it was there.

    The moment is one of all that an undisturbed run takes, or else, as most of these go by before
    anything is judged, one of those after the first submission has a process.
    """
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0, seconds))
    else:
        while run.process.poll() is None and not run.find_by_kind("child"):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, seconds / 4))
    while run.process.poll() is None:
        for pid in chance.sample(there := run.find_by_kind(kind), len(there)):
            if run.send_signal(pid, number):
                return pid
        time.sleep(chance.uniform(0, 0.02))
    return None


def judge(run: GradingRun, kind: str, course: Course) -> str:
    """How a run ended whose process was killed; fails unless it ended as it may."""
    end = run.wait(SLOW * course.seconds + WITHIN_S)
    assert end is not None, f"it stands still, or goes on, with {run.list_processes()}"
    left = run.wait_for_leftovers()
    assert left == {}, f"left over: {left}"
    if kind == "grader":
        assert end.code == -signal.SIGKILL
        assert end.err == ""
        return "killed"
    if end.code == 2:
        is_one_line(end)
        assert end.seconds < max(WITHIN_S, 2 * course.seconds)  # the second on a busy machine
        return end.err
    assert (end.code, end.err) == (course.code, "")
    assert parse_report(end) == course.report
    return "the right report"


def is_one_line(end: RunResult) -> None:
    assert end.out == b""
    assert end.err.startswith("headcheck: ") and end.err.count("\n") == 1, end.err
    assert "an internal error of headcheck" not in end.err
    assert "give the command again" in end.err


def kill_once(course: Course, kind: str, chance: random.Random, folder: Path) -> str:
    """Until one is there to be killed."""
    while True:
        with closing(GradingRun(folder, course.answers)) as run:
            if signalled(run, kind, chance, course.seconds, signal.SIGKILL) is not None:
                return judge(run, kind, course)


@pytest.mark.sampled("kind", KINDS, ("child",))
def test_killed_process_costs_no_verdict_and_no_delay(
    kind: str, course: Course, tmp_path: Path
) -> None:
    """`judge` fails unless the run ended as it may."""
    how = kill_once(course, kind, random.Random(f"{SEED} {kind}"), tmp_path)
    sys.stdout.write(f"{kind}, seed {SEED}: {how}\n")


def test_child_killed_during_diagnosis_costs_no_diagnosis(
    sandbox: SandboxDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "alan.py"
    path.write_text(RIGHT.replace("dim=-1", "dim=0"))
    settings, [handed_in] = Settings(exercise=BY_SLUG[SLUG]), find_submissions([str(path)])
    [before] = grade_file_or_raise(sandbox.server, handed_in, settings)
    assert before.diagnosis
    look, pending = diagnose, [signal.SIGKILL]

    def disturbed(harness: Harness, *asked: Any) -> tuple[DiagnosedMistake, ...]:
        for pid in sandbox.find_descendants():
            while pending:
                os.kill(pid, pending.pop())
        return look(harness, *asked)

    monkeypatch.setattr(diagnosis, "diagnose", disturbed)
    [after] = grade_file_or_raise(sandbox.server, handed_in, settings)
    assert not pending
    assert replace(after, seconds=0.0) == replace(before, seconds=0.0)


@pytest.mark.sampled("kind", KINDS, ("worker",))
def test_stopped_process_is_waited_for(kind: str, course: Course, tmp_path: Path) -> None:
    """Whoever is stopped for a moment costs no verdict: the run goes on when it does."""
    chance = random.Random(f"{SEED} stop {kind}")
    while True:
        with closing(GradingRun(tmp_path, course.answers)) as run:
            pid = signalled(run, kind, chance, course.seconds, signal.SIGSTOP)
            if pid is None:
                continue
            time.sleep(2)
            run.send_signal(pid, signal.SIGCONT)
            end = run.wait(SLOW * course.seconds + WITHIN_S)
            assert end is not None and run.wait_for_leftovers() == {}
            assert (end.code, end.err) == (course.code, "")
            assert parse_report(end) == course.report
            return


@pytest.mark.sampled("kind", KINDS[1:], ("zygote",))
def test_grader_ends_stopped_processes(kind: str, course: Course, tmp_path: Path) -> None:
    """A process that is stopped hears of nothing: the kernel ends it."""
    chance = random.Random(f"{SEED} stopped {kind}")
    with closing(GradingRun(tmp_path, course.answers)) as run:
        signalled(run, kind, chance, course.seconds, signal.SIGSTOP)
        run.process.kill()
        assert run.wait(WITHIN_S) is not None
        left = run.wait_for_leftovers()
        assert left == {}, f"left over: {left}"


@pytest.mark.deep
def test_kills_at_two_hundred_moments(course: Course, tmp_path: Path) -> None:
    """`judge` fails unless each run ended as it may."""
    sys.stdout.write(f"seed {SEED}; an undisturbed run took {course.seconds:.1f} s\n")
    for kind, chance in chances(EACH):
        began = time.monotonic()
        how = kill_once(course, kind, chance, tmp_path)
        sys.stdout.write(f"{kind}: {how.strip()} ({time.monotonic() - began:.1f} s)\n")
        sys.stdout.flush()
