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
from dataclasses import dataclass
from pathlib import Path

import pytest

from grader.report import Report
from tests.grader.kills import KINDS, WITHIN_S, End, Run, a_class, report_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
SEED = int(os.environ.get("HEADCHECK_KILLS", "0"))
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
    answers = a_class(folder / "class", 6)
    with closing(Run(folder, answers)) as run:
        end = run.end(120)
        assert end is not None
        assert (end.code, end.err) == (1, "")
        assert run.left() == {}
        return Course(answers, report_of(end), end.code, end.seconds)


def chances(count: int) -> Iterator[tuple[str, random.Random]]:
    for i in range(count):
        for kind in KINDS:
            yield kind, random.Random(f"{SEED} {kind} {i}")


def killed(run: Run, kind: str, chance: random.Random, seconds: float) -> bool:
    """Kill a process of this kind at a random moment; False if the run ended before it was there.

    The moment is one of those that an undisturbed run takes, and later if there is none by then.
    """
    time.sleep(chance.uniform(0, seconds))
    while run.process.poll() is None:
        there = run.of_kind(kind)
        if there and run.send(chance.choice(there), signal.SIGKILL):
            return True
        time.sleep(chance.uniform(0, 0.02))
    return False


def judge(run: Run, kind: str, course: Course) -> str:
    """How a run ended whose process was killed; fails unless it ended as it may."""
    end = run.end(course.seconds + WITHIN_S)
    assert end is not None, f"it goes on, with {run.processes()}"
    left = run.left()
    assert left == {}, f"left over: {left}"
    if kind == "examiner":
        assert end.code == -signal.SIGKILL
        assert end.err == ""
        return "killed"
    if end.code == 2:
        is_one_line(end)
        assert end.seconds < WITHIN_S
        return end.err
    assert (end.code, end.err) == (course.code, "")
    assert report_of(end) == course.report
    return "the right report"


def is_one_line(end: End) -> None:
    assert end.out == b""
    assert end.err.startswith("headcheck: ") and end.err.count("\n") == 1, end.err
    assert "a fault of headcheck" not in end.err
    assert "give the command again" in end.err


def kill_once(course: Course, kind: str, chance: random.Random, folder: Path) -> str:
    """Until one is there to be killed."""
    while True:
        with closing(Run(folder, course.answers)) as run:
            if killed(run, kind, chance, course.seconds):
                return judge(run, kind, course)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_process_costs_no_verdict_and_no_patience(
    kind: str, course: Course, tmp_path: Path
) -> None:
    print(f"{kind}: {kill_once(course, kind, random.Random(f'{SEED} {kind}'), tmp_path)}")


@pytest.mark.deep
def test_at_two_hundred_moments(course: Course, tmp_path: Path) -> None:
    print(f"seed {SEED}; an undisturbed run took {course.seconds:.1f} s")
    for kind, chance in chances(EACH):
        began = time.monotonic()
        how = kill_once(course, kind, chance, tmp_path)
        print(f"{kind}: {how.strip()} ({time.monotonic() - began:.1f} s)", flush=True)
