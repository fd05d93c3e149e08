"""Several workers on one machine: processes that judge, each with a sandbox of its own.

A worker is an examiner like the one in this process: submissions run in children of its fork
server, never in it. Worker and fork server are forked from the zygote, which has torch loaded;
where there is none, a worker is a new interpreter. Submissions are handed out one by one, and their
records come back in order. A worker that dies, or whose fork server does, is replaced and its
submission judged again, so nothing is lost. Where that is of no use, the first who finds out ends
all the others: nobody waits for a report that there will not be.

`grader.course.cluster` does the same on several machines.
"""

import contextlib
import gc
import itertools
import multiprocessing
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import torch

from exercises import BY_SLUG
from grader.grading import devices
from grader.grading.grade import Settings, grade_file
from grader.reading.submission import Submission
from grader.report.records import SubmissionRecord
from grader.sandbox.grader_side.in_process import UnconfinedSandbox
from grader.sandbox.grader_side.launch import EXIT_TIMEOUT_S, ForkedProcess, Zygote, ZygoteGone
from grader.sandbox.grader_side.servers import SandboxError, ServerHandle
from grader.sandbox.isolation import IsolationLevel

MAX_TRIES = 3
"""how often a submission is tried whose worker dies"""
MIN_SUBMISSIONS_PER_WORKER = 4
"""so many submissions for each worker make up for the time that it takes to start"""

SPAWN_CONTEXT = multiprocessing.get_context("spawn")
WORKER_ENTRY_POINT = "grader.grading.worker_pool:begin"

Sandbox = ServerHandle | UnconfinedSandbox
GradedSubmission = tuple[Submission, list[SubmissionRecord]]


@runtime_checkable
class RemoteGrader(Protocol):
    """Other machines, which judge by themselves."""

    isolation_level: IsolationLevel

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def grade_all(
        self, found: Sequence[Submission], settings: Settings
    ) -> Generator[GradedSubmission, None, None]:
        """As the function of this name."""


def create_sandbox(
    *, trusted: bool = False, device: str = "cpu", ahead: Zygote | None = None
) -> Sandbox:
    """Where submissions run, to be entered. Raises SandboxError where only trusted ones could.

    A zygote that was started ahead is taken over.
    """
    if device != "cpu":
        why = f"the driver of {device} is beyond the jail's reach"
    elif sys.platform != "linux":
        why = f"{sys.platform} has nothing to confine a process with"
    else:
        return ServerHandle(trusted=trusted, ahead=ahead)
    sandbox = UnconfinedSandbox(why)
    if not trusted:
        raise SandboxError(sandbox.isolation_level.refusal)
    devices.make_deterministic(device)
    return sandbox


def list_processors() -> list[int]:
    """Those that this process may use."""
    known = os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)
    return sorted(known)


def choose_worker_count(submissions: int) -> int:
    """How many workers are worth starting on this machine."""
    return max(1, min(len(list_processors()), submissions // MIN_SUBMISSIONS_PER_WORKER))


def assign_processors(jobs: int) -> list[int | None]:
    """A processor for each worker to stay on, where together they use all that there are.

    Examiner and child take turns: on two processors each would wait for the other one's to wake up,
    a tenth of a millisecond in every call. Where some are left over, the kernel knows better which
    are free.
    """
    all_of_them = list_processors()
    if sys.platform != "linux" or jobs < len(all_of_them):
        return [None] * jobs
    return list(itertools.islice(itertools.cycle(all_of_them), jobs))


def pin_to_processor(processor: int) -> None:
    """Keep this process, and all that it starts, on one processor."""
    with contextlib.suppress(OSError):  # it was taken away from us since
        os.sched_setaffinity(0, {processor})


def grade_all(
    sandbox: Sandbox | RemoteGrader, found: Sequence[Submission], settings: Settings
) -> Generator[GradedSubmission, None, None]:
    """Every submission with its records, in order, each as soon as those before it are judged.

    With one job it is done here, in this place; with more, in as many workers beside this process;
    or elsewhere. Raises SandboxError, and whatever else is our own fault.
    """
    if isinstance(sandbox, RemoteGrader):
        yield from sandbox.grade_all(found, settings)
        return
    jobs = settings.jobs or choose_worker_count(len(found))
    if jobs == 1:
        gc.freeze()
        for handed_in in found:
            yield handed_in, grade_file(sandbox, handed_in, settings)
        return
    trusted = isinstance(sandbox, UnconfinedSandbox) or sandbox.trusted
    zygote = None if isinstance(sandbox, UnconfinedSandbox) else sandbox.zygote
    pool = WorkerPool([Worker(settings, trusted, own, zygote) for own in assign_processors(jobs)])
    with contextlib.closing(pool), ThreadPoolExecutor(jobs) as threads:
        try:
            yield from zip(found, threads.map(pool.grade, found), strict=True)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.dismiss("the run was broken off")


@dataclass(frozen=True)
class WorkerTask:
    """What a worker is to know before it judges."""

    settings: Settings
    slug: str | None
    """of the exercise: there is one object of each, and it is not sent"""
    trusted: bool
    processor: int | None
    environment: Mapping[str, str]
    folder: str
    """where paths begin"""


@dataclass(frozen=True)
class RunningWorker:
    """A process that judges, and the line on which it is asked: there is never one alone."""

    process: ForkedProcess | BaseProcess
    connection: Connection

    def kill(self) -> None:
        """End it, with its fork server and every child: who waits for its answer hears of it."""
        self.process.kill()

    def close(self) -> None:
        """The same, and let go of it: for whoever alone uses it by then."""
        self.kill()
        if isinstance(self.process, ForkedProcess):
            self.process.wait(EXIT_TIMEOUT_S)
            self.process.close()
        else:
            self.process.join()
        self.connection.close()


@dataclass(eq=False)
class Worker:
    """One process, started when it is first needed; one thread at a time asks it."""

    settings: Settings
    trusted: bool
    processor: int | None = None
    """where it stays"""
    zygote: Zygote | None = None
    running: RunningWorker | None = None
    dismissal_reason: str = ""
    """why nothing is to be judged any more"""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def grade(self, handed_in: Submission) -> list[SubmissionRecord]:
        """Judge one submission. Raises SandboxError if it is the death of every worker."""
        why = SandboxError(
            f"{handed_in.display_path}: every worker that judged it died; out of memory?"
        )
        for _ in range(MAX_TRIES):
            try:
                answer = self._request(handed_in)
            except ZygoteGone as gone:
                raise SandboxError(str(gone)) from None
            except (EOFError, OSError):
                self.close()
                continue
            if isinstance(answer, list):
                return answer
            self.close()
            if not isinstance(answer, SandboxError):
                raise answer
            why = answer
        raise why

    def _request(self, handed_in: Submission) -> list[SubmissionRecord] | Exception:
        """Raises SandboxError, ZygoteGone, and EOFError or OSError if the process dies."""
        running = self.running or self._start()
        running.connection.send(handed_in)
        answer: list[SubmissionRecord] | Exception = running.connection.recv()
        return answer

    def _start(self) -> RunningWorker:
        """Raises SandboxError when nothing is to be judged any more, ZygoteGone, OSError."""
        self._refuse_if_dismissed()
        line, theirs = SPAWN_CONTEXT.Pipe()
        with theirs:
            try:
                running = RunningWorker(self._start_process(theirs), line)
            except BaseException:
                line.close()
                raise
        with self.lock:
            self.running = running
        self._refuse_if_dismissed()  # it was dismissed while it started
        slug = None if self.settings.exercise is None else self.settings.exercise.slug
        sent = replace(self.settings, exercise=None)
        here = dict(os.environ), str(Path.cwd())
        line.send(WorkerTask(sent, slug, self.trusted, self.processor, *here))
        return running

    def _refuse_if_dismissed(self) -> None:
        if self.dismissal_reason:
            raise SandboxError(self.dismissal_reason)

    def _start_process(self, theirs: Connection) -> ForkedProcess | BaseProcess:
        """Raises ZygoteGone."""
        if self.zygote is not None:
            branch = self.zygote.connect()
            return self.zygote.fork(WORKER_ENTRY_POINT, [os.dup(theirs.fileno()), branch])
        process = SPAWN_CONTEXT.Process(target=work, args=(theirs,), daemon=True)
        process.start()
        return process

    def dismiss(self, why: str) -> None:
        """Judge no more: whoever waits for an answer gets an error that says why."""
        with self.lock:
            self.dismissal_reason = self.dismissal_reason or why
            if self.running is not None:
                self.running.kill()

    def close(self) -> None:
        """End the process. No thread may wait for it any more but the one that calls this."""
        with self.lock:
            running, self.running = self.running, None
        if running is not None:
            running.close()


@dataclass(eq=False)
class WorkerPool:
    """Workers that wait for something to do."""

    workers: Sequence[Worker]
    idle: "queue.SimpleQueue[Worker]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        for worker in self.workers:
            self.idle.put(worker)

    def grade(self, handed_in: Submission) -> list[SubmissionRecord]:
        """Let whoever is idle judge a submission. Raises SandboxError, then and from then on."""
        worker = self.idle.get()
        try:
            return worker.grade(handed_in)
        except Exception as error:
            self.dismiss(str(error))
            raise
        finally:
            self.idle.put(worker)

    def dismiss(self, why: str) -> None:
        """Let nobody judge any more; who is judging gets an error that says why."""
        for worker in self.workers:
            worker.dismiss(why)

    def close(self) -> None:
        """End all of them, once no thread asks them any more."""
        for worker in self.workers:
            worker.close()


def begin(parent: int, line: int, branch: int) -> None:
    """The life of a worker that was forked from a zygote, with which it ends."""
    with Connection(line) as connection:
        work(connection, Zygote(socket.socket(fileno=branch)))


def work(line: Connection, zygote: Zygote | None = None) -> None:
    """The life of a worker: judge what comes in until the line is closed, or something breaks."""
    # An interrupt is the matter of the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        task: WorkerTask = line.recv()
        _apply_task(task)
        settings = replace(task.settings, exercise=BY_SLUG.get(task.slug or ""))
        try:
            with create_sandbox(
                trusted=task.trusted, device=settings.device, ahead=zygote
            ) as sandbox:
                gc.freeze()
                _answer(line, sandbox, settings)
        except SandboxError as error:  # there is no place to judge in: whoever asks is told why
            line.recv()
            line.send(error)
    except (EOFError, ConnectionError):  # reset, if it never read the last answer
        return


def _apply_task(task: WorkerTask) -> None:
    """Be where, and who, the process is that wants this work done."""
    os.environ.clear()
    os.environ.update(task.environment)
    os.chdir(task.folder)
    if task.processor is not None:
        pin_to_processor(task.processor)
    torch.set_num_threads(1)


def _answer(line: Connection, sandbox: Sandbox, settings: Settings) -> None:
    """Judge what comes in, until something is broken here: that is the last answer.

    Raises EOFError, ConnectionError when nobody wants to know any more.
    """
    while True:
        handed_in = line.recv()
        try:
            records = grade_file(sandbox, handed_in, settings)
        except Exception as error:
            line.send(error)
            return
        line.send(records)
