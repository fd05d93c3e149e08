"""The least cost of grading, and the actual cost: `python -m benchmarks.floor [ANSWERS]`.

The floor of a submission is the cost of a confined process that has loaded and run the submission,
plus the time in the submission's own constructors, forwards and backwards, for all calls that the
checks make. Everything else is headcheck's own cost: preparing and sending calls, comparing,
looking for a smaller example, naming the mistake, reporting. Prints processor times: medians over
ANSWERS right and as many wrong answers to `multi_head_attention`. The start of the command is not
included (see `python -m benchmarks`).

A submission's own time is measured in this process, where its class can be wrapped, while the same
calls are made again.
"""

import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.peers.classroom import SimulatedStudent, make_class
from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.sandbox.grader_side.in_process import InProcessRunner
from headcheck.grader.sandbox.grader_side.servers import ChildChannel, ServerHandle
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.operations import Answer, LoadReply
from headcheck.grader.sandbox.worker import runtime

EXERCISE = BY_SLUG["multi_head_attention"]

ANSWERS = 12
SETTINGS = Settings(exercise=EXERCISE)
HEADER = """\
| answers | a process, confined, that has loaded it | in the submission's own code | floor \
| whole | whole / floor |
|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class ProcessorTime:
    """Processor times in seconds."""

    born: float
    own: float
    whole: float

    @property
    def floor(self) -> float:
        return self.born + self.own

    @property
    def ratio(self) -> float:
        """The cost as a multiple of the floor."""
        return self.whole / self.floor


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ANSWERS
    students = make_class(2 * count)
    with tempfile.TemporaryDirectory() as scratch, ServerHandle() as server:
        watched_server = WatchedServer(server)
        taken = {
            student: _measure(watched_server, student, Path(scratch)) for student in students[:1]
        }
        # Once more, the first included: now everything is compiled.
        taken = {student: _measure(watched_server, student, Path(scratch)) for student in students}
    print(HEADER)
    for what, is_right in (("right", True), ("wrong", False)):
        print(
            _format_row(what, [t for student, t in taken.items() if student.is_right is is_right])
        )


@dataclass
class WatchedServer:
    """A fork server that records its children and the processor time that it and they have used."""

    server: ServerHandle
    children: list[ChildChannel] = field(default_factory=list)

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> ChildChannel:
        self.children.append(self.server.start_child(limits, cpu_left))
        return self.children[-1]

    def get_used_time(self) -> float:
        """Return the seconds used by the children that have ended and by the server itself."""
        stat = Path(f"/proc/{self.server.process.pid}/schedstat").read_text()
        return int(stat.split()[0]) / 1e9 + sum(child.cpu for child in self.children)


@dataclass
class NestedTimer:
    """Adds up the time spent in the functions that it wraps; nested calls count once."""

    seconds: float = 0.0
    depth: int = 0

    def wrap(self, action: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(action)
        def timed(*given: Any, **named: Any) -> Any:
            self.depth += 1
            began = time.process_time()
            try:
                return action(*given, **named)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.seconds += time.process_time() - began

        return timed


class TimedRuntime(runtime.WorkerRuntime):
    """A host that measures how long the submission's code runs."""

    def __init__(self, clock: NestedTimer) -> None:
        super().__init__()
        self.clock = clock

    def load(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Answer[LoadReply]:
        reply = super().load(meta, tensors)
        for name in meta["names"]:
            wanted = self.namespace[name]
            for method in ("__init__", "forward"):
                if hasattr(wanted, method):
                    setattr(wanted, method, self.clock.wrap(getattr(wanted, method)))
        return reply


@dataclass
class TimedSandbox:
    """Makes timed hosts in this process."""

    clock: NestedTimer = field(default_factory=NestedTimer)

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> InProcessRunner:
        return InProcessRunner(TimedRuntime(self.clock))


def _measure(
    watched_server: WatchedServer, student: SimulatedStudent, folder: Path
) -> ProcessorTime:
    path = folder / f"{student.name}.py"
    path.write_text(student.make_module(), encoding="utf-8")
    handed_in = Submission(path, str(path))
    began = time.process_time() + watched_server.get_used_time()
    confined = grade_file_or_raise(watched_server, handed_in, SETTINGS)
    whole = time.process_time() + watched_server.get_used_time() - began
    before = watched_server.get_used_time()
    with closing(Session(watched_server, path.read_bytes(), handed_in.kind, Limits())) as session:
        session.load(EXERCISE.contract.name)
    born = watched_server.get_used_time() - before
    timed = TimedSandbox()
    with mock.patch.object(Tensor, "backward", timed.clock.wrap(Tensor.backward)):
        beside = grade_file_or_raise(timed, handed_in, SETTINGS)
    if [record.status for record in confined] != [record.status for record in beside]:
        raise SystemExit(f"{student.answer.name} got another verdict where its time was taken")
    return ProcessorTime(born, timed.clock.seconds, whole)


def _format_row(what: str, taken: Sequence[ProcessorTime]) -> str:
    parts = [map(attrgetter(part), taken) for part in ("born", "own", "floor", "whole")]
    shown = [f"{1e3 * statistics.median(part):.0f} ms" for part in parts]
    ratio = statistics.median(one.ratio for one in taken)
    return f"| {len(taken)} {what} | {' | '.join(shown)} | {ratio:.1f} |"


if __name__ == "__main__":
    main()
