"""A file is checked whenever it was saved, however an editor does that, until Ctrl-C."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.watch import POLL_INTERVAL_S, read_stamp, wait_for_saves

ROOT = Path(__file__).parents[3]
EXERCISE = BY_SLUG["linear_layer"]
RIGHT = EXERCISE.solution
WRONG = "def linear(x, weight, bias):\n    return x @ weight.T\n"


class Desk:
    """Somebody who works on a file while it is watched: does a step whenever the watcher waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.steps: list[tuple[str, str]] = []
        self.waited: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        if not self.steps:
            raise KeyboardInterrupt
        do, text = self.steps.pop(0)
        if do == "write":
            self.path.write_text(text)
        elif do == "replace":  # as editors do that never leave half a file behind
            other = self.path.with_suffix(".swp")
            other.write_text(text)
            other.replace(self.path)
        elif do == "remove":
            self.path.unlink()

    def seen(self, *steps: tuple[str, str]) -> list[str]:
        """What is in the file each time that it is taken up."""
        self.steps = list(steps)
        found = []
        with contextlib.suppress(KeyboardInterrupt):
            for _ in wait_for_saves(self.path, self.wait):
                found.append(self.path.read_text())
        return found


NOTHING = ("nothing", "")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    path = tmp_path / "ada.py"
    path.write_text("one")
    return Desk(path)


def test_the_file_as_it_is_comes_first_and_once(desk: Desk) -> None:
    assert desk.seen(NOTHING, NOTHING, NOTHING) == ["one"]
    assert set(desk.waited) == {POLL_INTERVAL_S}


@pytest.mark.parametrize("way", ["write", "replace"])
def test_a_save_is_seen_once(desk: Desk, way: str) -> None:
    assert desk.seen((way, "two"), NOTHING, NOTHING) == ["one", "two"]


def test_a_file_that_is_still_being_written_is_waited_for(desk: Desk) -> None:
    written = ("write", "t"), ("write", "tw"), ("write", "two"), NOTHING
    assert desk.seen(*written) == ["one", "two"]


def test_a_file_that_vanishes_for_a_moment_is_waited_for(desk: Desk) -> None:
    steps = ("remove", ""), NOTHING, NOTHING, ("write", "two"), NOTHING
    assert desk.seen(*steps) == ["one", "two"]


def test_missing_or_special_file_has_no_stamp(tmp_path: Path) -> None:
    assert read_stamp(tmp_path / "none.py") is None
    assert read_stamp(tmp_path) is None


# ---------------------------------------------------------------------- the command


@contextlib.contextmanager
def command(*arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """It hears Ctrl-C even where whoever runs the tests in the background does not."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "headcheck", "check", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def reports(process: "subprocess.Popen[str]") -> Iterator[str]:
    """What is printed for each check."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("watching"):
            yield "".join(lines)
            lines.clear()
    yield "".join(lines)


@pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")
def test_the_command_checks_after_every_save_and_ends_with_the_last_result(tmp_path: Path) -> None:
    path = tmp_path / "ada.py"
    path.write_text(WRONG)
    with command(str(path), "--exercise", "linear_layer", "--watch", "--trusted") as process:
        found = reports(process)
        assert "failed" in next(found)
        other = tmp_path / "ada.tmp"
        other.write_text(RIGHT)
        other.replace(path)
        second = next(found)
        assert "passed" in second and "failed" not in second
        assert "\x1b" not in second, "only a terminal is cleared"
        path.unlink()
        shutil.copy(EXERCISE.folder / "solution.py", path)
        assert "passed" in next(found)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert next(found) == ""


def test_a_folder_cannot_be_watched(tmp_path: Path) -> None:
    with command(str(tmp_path), "--watch") as process:
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert said == f"headcheck: {tmp_path}: headcheck cannot watch a folder; name one file\n"
