"""A run of `headcheck grade --jobs 2`, its processes by what they do, and how it may end."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headcheck.grader.report.records import Report, from_json, strip_seconds
from tests.commands import RIGHT

WITHIN_S = 10.0
"""how soon after a kill a run that cannot go on says so, and how soon nothing of it is left"""
SLUG = "simplified_attention"
PROGRESS = re.compile(r"(?m)^\d+/\d+ .*\n")
"""a line for each file that is finished"""
KINDS = ("grader", "zygote", "server", "worker", "child")


@dataclass(frozen=True)
class Process:
    """What the kernel says of a process."""

    pid: int
    parent: int
    state: str
    ticks: int
    """of processor time"""
    locked: bool
    """whether it can never gain rights: fork servers, once they have started, and what they fork"""


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    code: int
    out: bytes
    err: str
    seconds: float


class GradingRun:
    """A command in a session of its own: whatever bears the session's number stems from it."""

    def __init__(self, folder: Path, answers: Path) -> None:
        self.out, self.err = folder / "out", folder / "err"
        self.began = time.monotonic()
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-m",
                        "headcheck",
                        "grade",
                        str(answers),
                        "--jobs",
                        "2",
                        "--seed",
                        "0",
                    ),
                    *("--exercise", SLUG, "--format", "json"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def list_processes(self) -> dict[int, Process]:
        """Those that there are, the command's own among them, but for what has ended."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(words[3]) != self.process.pid or words[0] in "ZX":
                    continue
                status = (entry / "status").read_text()
                locked = "NoNewPrivs:\t1" in status
                pid, ticks = int(entry.name), int(words[11]) + int(words[12])
                found[pid] = Process(pid, int(words[1]), words[0], ticks, locked)
        return found

    def find_by_kind(self, kind: str) -> list[int]:
        """The processes that do this work. A fork server that is starting counts as a worker."""
        there = self.list_processes()
        zygotes = {p.pid for p in there.values() if p.parent == self.process.pid}
        forked = [p for p in there.values() if p.parent in zygotes]
        servers = {p.pid for p in forked if p.locked}
        chosen: dict[str, Callable[[Process], bool]] = {
            "grader": lambda p: p.pid == self.process.pid,
            "zygote": lambda p: p.pid in zygotes,
            "server": lambda p: p.pid in servers,
            "worker": lambda p: p in forked and not p.locked,
            "child": lambda p: p.parent in servers,
        }
        return sorted(p.pid for p in there.values() if chosen[kind](p))

    def send_signal(self, pid: int, number: signal.Signals) -> bool:
        """Whether a process was there to get a signal."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, within: float, still: float = WITHIN_S) -> RunResult | None:
        """How it ended; None if it has not within some seconds, or has stood still for some.

        A run that waits for nobody stands still; one on a machine with other work is only slow.
        """
        began = moved = time.monotonic()
        before = self.get_cpu_ticks()
        while (now := time.monotonic()) - began < within and now - moved < still:
            with suppress(subprocess.TimeoutExpired):
                code = self.process.wait(0.1)
                err = PROGRESS.sub("", self.err.read_text(errors="replace"))
                return RunResult(code, self.out.read_bytes(), err, time.monotonic() - began)
            if (used := self.get_cpu_ticks()) != before:
                before, moved = used, time.monotonic()
        return None

    def get_cpu_ticks(self) -> dict[int, int]:
        """The processor time of each of its processes, in ticks."""
        return {pid: process.ticks for pid, process in self.list_processes().items()}

    def wait_for_leftovers(self, within: float = WITHIN_S) -> dict[int, Process]:
        """What is still there of it after some seconds."""
        limit = time.monotonic() + within
        while (there := self.list_processes()) and time.monotonic() < limit:
            time.sleep(0.05)
        return there

    def close(self) -> None:
        """End all of it, whatever state it is in."""
        for pid in self.list_processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def write_class(folder: Path, size: int) -> Path:
    """As many answers: right ones, a wrong one, one that is no Python, one that raises."""
    wrong = RIGHT.replace("softmax", "sigmoid").replace(", dim=-1", "")
    odd = (wrong, "def broken(:\n", "1 / 0\n")
    folder.mkdir()
    for i in range(size):
        text = odd[i // 2] if i % 2 and i // 2 < len(odd) else RIGHT
        (folder / f"s{i}.py").write_text(text)
    return folder


def parse_report(end: RunResult) -> Report:
    return strip_seconds(from_json(end.out))
