"""`kill -9` of grader, server or child, at any moment: no orphan, and no wrong verdict."""

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.sandbox.grader_side import launch
from headcheck.grader.sandbox.grader_side.servers import SandboxError, ServerHandle
from headcheck.grader.sandbox.isolation import Layer
from tests.commands import RIGHT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's"),
    pytest.mark.own_zygote,
]
WITHOUT: tuple[tuple[str, ...], ...] = ((), ("namespaces",))
"""what is left out on the levels A and B"""
ON_LEVELS = pytest.mark.sampled("without", WITHOUT, WITHOUT[:1], ids=lambda w: "AB"[len(w)])


def grade_for_ever(path: Path, without: tuple[str, ...], lines: int, errors: int) -> None:
    """Grade the same right answer again and again, and say how it went and when it began."""
    os.dup2(errors, 2)
    settings = Settings(exercise=BY_SLUG["simplified_attention"])
    [answer] = find_submissions([str(path)])
    with os.fdopen(lines, "w", buffering=1) as out:
        server = ServerHandle(without=[Layer(name) for name in without])
        assert server.zygote.process is not None
        print("zygote", server.zygote.process.pid, file=out)
        try:
            with server:
                print("ready", server.process.pid, file=out)
                while True:
                    began = time.monotonic()
                    [record] = grade_file_or_raise(server, answer, settings)
                    print(record.status, record.score == record.max_score, began, file=out)
        except SandboxError as error:
            print("error", error, file=out)


class RunningGrader:
    """A grader in a process of its own, and every process that stems from it."""

    def __init__(self, folder: Path, without: tuple[str, ...]) -> None:
        answer = folder / "ada.py"
        answer.write_text(RIGHT)
        (lines, to_lines), (errors, to_errors) = os.pipe(), os.pipe()
        self.process = multiprocessing.get_context("fork").Process(
            target=grade_for_ever, args=(answer, without, to_lines, to_errors)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of xdist are elsewhere
            self.process.start()
        os.close(to_lines)
        os.close(to_errors)
        self.lines, self.errors = os.fdopen(lines), os.fdopen(errors)
        self.zygote = int(self.lines.readline().split()[1])

    def begun(self) -> "RunningGrader":
        said, server = self.lines.readline().split()
        assert said == "ready"
        self.server = int(server)
        self.verdict()
        return self

    def verdict(self) -> float:
        """When the grading began whose verdict is next; the verdict is the right one."""
        status, full, began = self.lines.readline().split()
        assert (status, full) == ("passed", "True")
        return float(began)

    def alive(self) -> set[int]:
        """Zygote, server and its children: their command line names the grader."""
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if (
                    b"headcheck.grader.sandbox.server_side.zygote" in words
                    and str(self.process.pid).encode() in words
                ):
                    found.add(int(folder.name))
        return found

    def child(self) -> int:
        """A process in which a submission runs, as soon as there is one."""
        while not (children := self.alive() - {self.zygote, self.server}):
            time.sleep(0.001)
        return min(children)

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.lines.close()
        self.errors.close()


def gone(grader_process: RunningGrader, within: float = 20) -> bool:
    limit = time.monotonic() + within
    while grader_process.alive():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def grader_process(tmp_path: Path, without: tuple[str, ...]) -> Iterator[RunningGrader]:
    running = RunningGrader(tmp_path, without)
    yield running
    running.close()
    assert gone(running)


def kill_children(grader_process: RunningGrader, times: int, chance: random.Random) -> None:
    """Children are killed at random moments, one of each grading at most: every verdict is right.

    Whose processes are killed as often as it is tried again (session.TRIES) is not graded.
    """
    for _ in range(times):
        time.sleep(chance.uniform(0, 0.2))
        with contextlib.suppress(ProcessLookupError):
            os.kill(grader_process.child(), signal.SIGKILL)
        killed = time.monotonic()
        while grader_process.verdict() < killed:
            pass


def kill_server(grader_process: RunningGrader, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, 0.3))
    os.kill(grader_process.server, signal.SIGKILL)
    said = grader_process.lines.read().splitlines()
    assert said[-1] == f"error {launch.GONE}"
    assert all(line.startswith("passed True") for line in said[:-1])
    assert gone(grader_process)


def kill_grader(grader_process: RunningGrader, chance: random.Random, longest: float = 0.3) -> None:
    time.sleep(chance.uniform(0, longest))
    grader_process.process.kill()
    assert gone(grader_process)
    said = grader_process.lines.read().splitlines()
    assert all(line.startswith(("ready", "passed True")) for line in said)
    assert grader_process.errors.read() == ""


@ON_LEVELS
def test_killed_child_loses_no_verdict_and_a_killed_server_ends_the_run(
    grader_process: RunningGrader,
) -> None:
    kill_children(grader_process.begun(), 2, random.Random(1))
    kill_server(grader_process, random.Random(2))


@ON_LEVELS
def test_killed_grader_leaves_no_processes(grader_process: RunningGrader) -> None:
    kill_grader(grader_process.begun(), random.Random(3))


@ON_LEVELS
def test_grader_killed_while_the_server_starts_leaves_no_processes(
    grader_process: RunningGrader,
) -> None:
    kill_grader(grader_process, random.Random(4))


@pytest.mark.deep
@pytest.mark.parametrize("without", WITHOUT, ids=["A", "B"])
@pytest.mark.parametrize("seed", range(10))
def test_kills_at_random_moments_leave_no_processes(
    seed: int, tmp_path: Path, without: tuple[str, ...]
) -> None:
    chance = random.Random(seed)
    with contextlib.closing(RunningGrader(tmp_path, without)) as running:
        kill_children(running.begun(), 4, chance)
        kill_server(running, chance)
    for longest in (0.5, 2.0, 6.0):
        with contextlib.closing(RunningGrader(tmp_path, without)) as running:
            kill_grader(running, chance, longest)
