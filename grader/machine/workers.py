"""Several workers on one machine: processes that judge, each with a sandbox of its own.

A worker is an examiner like the one in this process: submissions run in children of its fork
server, never in it. Submissions are handed out one by one, and their records come back in order.
A worker that dies is replaced and its submission judged again, so nothing is lost.

`grader.cohort.cluster` does the same on several machines.
"""

import contextlib
import gc
import itertools
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol, Self, runtime_checkable

import torch

from exercises import BY_SLUG
from grader.judging.grading import Settings, graded
from grader.machine import devices
from grader.machine.unconfined import Unconfined
from grader.report import SubmissionRecord
from grader.sandbox.jail.rung import Rung
from grader.sandbox.launch import Started
from grader.sandbox.process import SandboxError, Server
from grader.submission import Submission

TRIES = 3
"""how often a submission is tried whose worker dies"""
WORTH = 16
"""so many submissions for each worker make up for the time that it takes to start"""

# Not forked from here, where torch may have threads that would be missing in a fork, but from a
# process that has imported what workers need and does nothing else.
if sys.platform == "linux":
    CONTEXT = multiprocessing.get_context("forkserver")
    CONTEXT.set_forkserver_preload([__name__])
else:
    CONTEXT = multiprocessing.get_context("spawn")

Place = Server | Unconfined
Graded = tuple[Submission, list[SubmissionRecord]]


@runtime_checkable
class Elsewhere(Protocol):
    """Other machines, which judge by themselves."""

    rung: Rung

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def judged(
        self, found: Sequence[Submission], settings: Settings
    ) -> Generator[Graded, None, None]:
        """As the function of this name."""


def sandbox(*, trusted: bool = False, device: str = "cpu", ahead: Started | None = None) -> Place:
    """Where submissions run, to be entered. Raises SandboxError where only trusted ones could.

    A fork server that was started ahead is taken over.
    """
    if device != "cpu":
        why = f"the driver of {device} is beyond the jail's reach"
    elif sys.platform != "linux":
        why = f"{sys.platform} has nothing to confine a process with"
    else:
        return Server(trusted=trusted, ahead=ahead)
    place = Unconfined(why)
    if not trusted:
        raise SandboxError(place.rung.refusal)
    devices.pin(device)
    return place


def processors() -> list[int]:
    """Those that this process may use."""
    known = os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)
    return sorted(known)


def fitting(submissions: int) -> int:
    """How many workers are worth starting on this machine."""
    return max(1, min(len(processors()), submissions // WORTH))


def shared_out(jobs: int) -> list[int | None]:
    """A processor for each worker to stay on, where together they use all that there are.

    Examiner and child take turns: on two processors each would wait for the other one's to wake up,
    a tenth of a millisecond in every call. Where some are left over, the kernel knows better which
    are free.
    """
    all_of_them = processors()
    if sys.platform != "linux" or jobs < len(all_of_them):
        return [None] * jobs
    return list(itertools.islice(itertools.cycle(all_of_them), jobs))


def stay_on(processor: int) -> None:
    """Keep this process, and all that it starts, on one processor."""
    with contextlib.suppress(OSError):  # it was taken away from us since
        os.sched_setaffinity(0, {processor})


def judged(
    place: Place | Elsewhere, found: Sequence[Submission], settings: Settings
) -> Generator[Graded, None, None]:
    """Every submission with its records, in order, each as soon as those before it are judged.

    With one job it is done here, in this place; with more, in as many workers beside this process;
    or elsewhere. Raises SandboxError, and whatever else is our own fault.
    """
    if isinstance(place, Elsewhere):
        yield from place.judged(found, settings)
        return
    jobs = settings.jobs or fitting(len(found))
    if jobs == 1:
        gc.freeze()
        for handed_in in found:
            yield handed_in, graded(place, handed_in, settings)
        return
    trusted = isinstance(place, Unconfined) or place.trusted
    crew = Crew([Worker(settings, trusted, own) for own in shared_out(jobs)])
    with ThreadPoolExecutor(jobs) as threads:
        try:
            yield from zip(found, threads.map(crew.grade, found), strict=True)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            crew.end()


@dataclass(eq=False)
class Worker:
    """One process, started when it is first needed."""

    settings: Settings
    trusted: bool
    processor: int | None = None
    """where it stays"""
    process: BaseProcess | None = None
    line: Connection | None = None
    dismissed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def grade(self, handed_in: Submission) -> list[SubmissionRecord]:
        """Judge one submission. Raises SandboxError if it is the death of every worker."""
        for _ in range(TRIES):
            try:
                line = self._started()
                line.send(handed_in)
                answer = line.recv()
            except (EOFError, OSError):
                self.end()
                continue
            if isinstance(answer, BaseException):
                raise answer
            records: list[SubmissionRecord] = answer
            return records
        raise SandboxError(f"{handed_in.shown}: every worker that judged it died; out of memory?")

    def _started(self) -> Connection:
        if self.dismissed:
            raise SandboxError("the run was broken off")
        if self.line is None:
            self.line, theirs = CONTEXT.Pipe()
            slug = self.settings.exercise and self.settings.exercise.slug
            sent = replace(self.settings, exercise=None)  # there is one object of each exercise
            self.process = CONTEXT.Process(
                target=work, args=(theirs, sent, slug, self.trusted, self.processor), daemon=True
            )
            self.process.start()
            theirs.close()
        return self.line

    def end(self) -> None:
        """End the process, and with it its fork server and every child.

        The thread that waits for its answer may do so while another one ends the run.
        """
        with self.lock:
            process, self.process = self.process, None
            line, self.line = self.line, None
        if process is not None:
            process.kill()
            process.join()
        if line is not None:
            line.close()


@dataclass(eq=False)
class Crew:
    """Workers that wait for something to do."""

    workers: Sequence[Worker]
    idle: "queue.SimpleQueue[Worker]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        for worker in self.workers:
            self.idle.put(worker)

    def grade(self, handed_in: Submission) -> list[SubmissionRecord]:
        """Let whoever is idle judge a submission."""
        worker = self.idle.get()
        try:
            return worker.grade(handed_in)
        finally:
            self.idle.put(worker)

    def end(self) -> None:
        """End all of them."""
        for worker in self.workers:
            worker.dismissed = True
            worker.end()


def work(
    line: Connection,
    settings: Settings,
    slug: str | None,
    trusted: bool,
    processor: int | None = None,
) -> None:
    """The life of a worker: judge what comes in until the line is closed."""
    if processor is not None:
        stay_on(processor)
    # An interrupt is the matter of the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    settings = replace(settings, exercise=None if slug is None else BY_SLUG[slug])
    with sandbox(trusted=trusted, device=settings.device) as place:
        gc.freeze()
        while True:
            try:
                handed_in = line.recv()
            except (EOFError, ConnectionError):  # reset, if it never read the last answer
                return
            try:
                answer: object = graded(place, handed_in, settings)
            except SandboxError as error:
                answer = error
            try:
                line.send(answer)
            except ConnectionError:  # who asked was killed, and nobody wants to know
                return
