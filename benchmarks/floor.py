"""What could not be saved, beside what is spent: `python -m benchmarks.floor [ANSWERS]`.

The floor of a submission is a process of its own, confined, that has read and run what is judged,
and the time in the submission's own constructors, forwards and backwards, for all the questions
that it is asked. Everything else is headcheck's: asking, sending, comparing, looking for a smaller
example, naming the mistake, reporting. Processor time, medians over so many right and as many wrong
answers to `multi_head_attention`; the start of the command is not in it (`python -m benchmarks`).

A submission's own time is taken beside this process, where its class can be wrapped, while it is
asked the same questions again.
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

from benchmarks.peers.classroom import Student, classroom
from exercises.multi_head_attention import EXERCISE
from grader.grading.grade import Settings, grade
from grader.reading.submission import Submission
from grader.sandbox.grader_side.in_process import Beside
from grader.sandbox.grader_side.servers import Child, Server
from grader.sandbox.grader_side.session import Session
from grader.sandbox.limits import Limits
from grader.sandbox.worker import calling, learning, runtime
from grader.sandbox.worker.batch import Reply

ANSWERS = 12
SETTINGS = Settings(exercise=EXERCISE)
HEADER = """\
| answers | a process, confined, that has loaded it | in the submission's own code | floor \
| whole | whole / floor |
|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Taken:
    """Seconds of processor time."""

    born: float
    own: float
    whole: float

    @property
    def floor(self) -> float:
        return self.born + self.own

    @property
    def ratio(self) -> float:
        """How many times the floor is spent."""
        return self.whole / self.floor


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ANSWERS
    students = classroom(2 * count)
    with tempfile.TemporaryDirectory() as scratch, Server() as server:
        place = Watched(server)
        taken = {student: _taken(place, student, Path(scratch)) for student in students[:1]}
        # Once more, the first included: now everything is compiled.
        taken = {student: _taken(place, student, Path(scratch)) for student in students}
    print(HEADER)
    for what, is_right in (("right", True), ("wrong", False)):
        print(_row(what, [t for student, t in taken.items() if student.is_right is is_right]))


@dataclass
class Watched:
    """A fork server whose children are known, and what it and they have used."""

    server: Server
    children: list[Child] = field(default_factory=list)

    def child(self, limits: Limits, cpu_left: int | None = None) -> Child:
        self.children.append(self.server.child(limits, cpu_left))
        return self.children[-1]

    def used(self) -> float:
        """Seconds: the children that have ended, and the server itself."""
        stat = Path(f"/proc/{self.server.process.pid}/schedstat").read_text()
        return int(stat.split()[0]) / 1e9 + sum(child.cpu for child in self.children)


@dataclass
class Clock:
    """Adds up the time spent in what it was put around; calls within calls count once."""

    seconds: float = 0.0
    depth: int = 0

    def around(self, action: Callable[..., Any]) -> Callable[..., Any]:
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


class TimedHost(runtime.Host):
    """A host that knows how long it was in the submission's code."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def load(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        reply = super().load(meta, tensors)
        for name in meta["names"]:
            wanted = self.namespace[name]
            for method in ("__init__", "forward"):
                if hasattr(wanted, method):
                    setattr(wanted, method, self.clock.around(getattr(wanted, method)))
        return reply


@dataclass
class TimedPlace:
    """Makes such hosts in this process."""

    clock: Clock = field(default_factory=Clock)

    def child(self, limits: Limits, cpu_left: int | None = None) -> Beside:
        return Beside(TimedHost(self.clock))


def _taken(place: Watched, student: Student, folder: Path) -> Taken:
    path = folder / f"{student.name}.py"
    path.write_text(student.module(), encoding="utf-8")
    handed_in = Submission(path, str(path))
    began = time.process_time() + place.used()
    confined = grade(place, handed_in, SETTINGS)
    whole = time.process_time() + place.used() - began
    before = place.used()
    with closing(Session(place, path.read_bytes(), handed_in.kind, Limits())) as session:
        session.load(EXERCISE.contract.name)
    born = place.used() - before
    timed = TimedPlace()
    with mock.patch.object(learning, "gradients", timed.clock.around(calling.gradients)):
        beside = grade(timed, handed_in, SETTINGS)
    if [record.status for record in confined] != [record.status for record in beside]:
        raise SystemExit(f"{student.answer.name} got another verdict where its time was taken")
    return Taken(born, timed.clock.seconds, whole)


def _row(what: str, taken: Sequence[Taken]) -> str:
    parts = [map(attrgetter(part), taken) for part in ("born", "own", "floor", "whole")]
    shown = [f"{1e3 * statistics.median(part):.0f} ms" for part in parts]
    ratio = statistics.median(one.ratio for one in taken)
    return f"| {len(taken)} {what} | {' | '.join(shown)} | {ratio:.1f} |"


if __name__ == "__main__":
    main()
