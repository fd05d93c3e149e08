"""Judge answers side by side in child processes, even if they hang or end their process."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from headcheck.exercises import Exercise
from headcheck.exercises.answers import Answer
from headcheck.grader.audit.matrix import CONTEXT, initialise_process
from headcheck.grader.authoring.judging import DOES_NOT_END, ENDS_ITS_PROCESS, Judged, judge
from headcheck.grader.sandbox.timing import ChildTimer, OutOfPatience, read_process_times

TIME_LIMIT_S = 60.0
"""how many seconds an answer may compute or sleep; the slowest normal answer takes a few seconds"""
Task = Callable[[Answer, Exercise], Judged]


@dataclass(eq=False)
class _Worker:
    """A child process, and the number of the answer that it is judging."""

    process: BaseProcess
    line: Connection
    timer: ChildTimer
    number: int | None = None
    ready: bool = False
    """whether the worker has finished its imports"""

    @property
    def used(self) -> float:
        """Seconds of processor time."""
        return read_process_times(self.timer.pid).cpu

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.line.close()


def judge_all(
    exercise: Exercise,
    answers: Sequence[Answer],
    jobs: int,
    task: Task = judge,
    seconds: float = math.inf,
) -> list[Judged]:
    """Judge every answer, in `jobs` child processes, and return the verdicts in order.

    An answer that hangs, or ends its process, counts as caught, and a new process judges the
    others. Answers without a verdict after `seconds` of processor time are left out.
    """
    used_before = 0.0
    waiting = deque(range(len(answers)))
    done: dict[int, Judged] = {}
    workers = [_start(exercise, task) for _ in range(min(jobs, len(answers)))]
    try:
        while len(done) < len(answers):
            if used_before + sum(worker.used for worker in workers) > seconds:
                break
            ready = wait([worker.line for worker in workers], timeout=1.0)
            for place, worker in enumerate(workers):
                number = worker.number
                ended = _receive(worker, done) if worker.line in ready else _is_late(worker)
                if ended:
                    if number is not None:
                        done[number] = Judged(answers[number], ended)
                    used_before += worker.used
                    worker.end()
                    workers[place] = _start(exercise, task)
                elif worker.ready and worker.number is None and waiting:
                    worker.number = waiting.popleft()
                    worker.timer = ChildTimer.start_now(worker.timer.pid, TIME_LIMIT_S)
                    worker.line.send(answers[worker.number])
    finally:
        for worker in workers:
            worker.end()
    return [done[number] for number in sorted(done)]


def _start(exercise: Exercise, task: Task) -> _Worker:
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_work, args=(theirs, exercise, task), daemon=True)
    process.start()
    theirs.close()  # so that its end is noticed here
    assert process.pid is not None, "it has started"
    return _Worker(process, ours, ChildTimer(process.pid))


def _work(line: Connection, exercise: Exercise, task: Task) -> None:
    """Judge each answer that arrives over the connection; this runs in a child process."""
    initialise_process()
    line.send(None)
    while True:
        try:
            answer = line.recv()
        except EOFError:
            return
        line.send(task(answer, exercise))


def _receive(worker: _Worker, done: dict[int, Judged]) -> str | None:
    """Store the verdict that a worker sends; if its process has ended, return the reason."""
    try:
        verdict = worker.line.recv()
    except (EOFError, OSError):
        return ENDS_ITS_PROCESS
    worker.ready = True
    if worker.number is not None:
        done[worker.number], worker.number = verdict, None
    return None


def _is_late(worker: _Worker) -> str | None:
    if worker.number is None:
        return None
    try:
        worker.timer.wait_more()
    except (TimeoutError, OutOfPatience):
        return DOES_NOT_END
    return None
