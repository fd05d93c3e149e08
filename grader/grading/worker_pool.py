"""Several workers on one machine: processes that grade, each with a sandbox of its own.

A worker grades like this process: submissions run in children of its fork server, never in it.
Worker and fork server are forked from the zygote, which has torch loaded; without a zygote a worker
is a new interpreter. Submissions are handed out one by one, and the records of a sequence of them
come back in order. If a worker or its fork server dies, the worker is replaced and its submission
graded again, so nothing is lost. If replacing a worker does not help, all other workers are ended
too, because there will be no report.
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
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

import torch

from headcheck.grader.grading import devices
from headcheck.grader.grading.events import Listener, ignore
from headcheck.grader.grading.grade import grade_file
from headcheck.grader.grading.same_code import JudgedCode
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.ungraded import record_busy
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.sandbox.grader_side.launch import (
    EXIT_TIMEOUT_S,
    ForkedProcess,
    Zygote,
    ZygoteGone,
)
from headcheck.grader.sandbox.grader_side.servers import SandboxError, ServerHandle

MAX_TRIES = 3
"""the maximum number of attempts to grade a submission whose worker dies"""
DIED = "every process that judged it was killed, or memory ran out"
MIN_SUBMISSIONS_PER_WORKER = 4
"""starting one more worker only pays off with this many further submissions"""

SPAWN_CONTEXT = multiprocessing.get_context("spawn")
WORKER_ENTRY_POINT = "headcheck.grader.grading.worker_pool:begin"


class Supply(Protocol):
    """Submissions to grade; they may be taken one by one, when somebody is free to grade them."""

    def __len__(self) -> int:
        """Return how many there are at most."""

    def __iter__(self) -> Iterator[Submission]:
        """Yield them."""


Sandbox = ServerHandle | UnconfinedSandbox
GradedSubmission = tuple[Submission, list[SubmissionRecord]]
_Begun = tuple[Submission, Future[list[SubmissionRecord]]]


def create_sandbox(
    *, trusted: bool = False, device: str = "cpu", ahead: Zygote | None = None
) -> Sandbox:
    """Return a sandbox, a context manager. Raises SandboxError if it is only safe for trusted code.

    The sandbox takes over the zygote `ahead` if one was started earlier.
    """
    if device != "cpu":
        why = f"the sandbox cannot confine the driver of {device}"
    elif sys.platform != "linux":
        why = f"{sys.platform} has no means to confine a process"
    else:
        return ServerHandle(trusted=trusted, ahead=ahead)
    sandbox = UnconfinedSandbox(why)
    if not trusted:
        raise SandboxError(sandbox.isolation_level.refusal)
    devices.make_deterministic(device)
    return sandbox


def list_processors() -> list[int]:
    """Return the processors that this process may use."""
    usable = os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)
    return sorted(usable)


def choose_worker_count(submissions: int) -> int:
    """Return how many workers are worth starting on this machine."""
    return max(1, min(len(list_processors()), submissions // MIN_SUBMISSIONS_PER_WORKER))


def assign_processors(jobs: int) -> list[int | None]:
    """Return a processor for each worker to stay on if there are enough workers for all processors.

    A worker and its child take turns. On two processors, each would wait until the other's
    processor wakes up, which takes a tenth of a millisecond in every call. If there are fewer
    workers than processors, the kernel knows better which processors are free.
    """
    processors = list_processors()
    if sys.platform != "linux" or jobs < len(processors):
        return [None] * jobs
    return list(itertools.islice(itertools.cycle(processors), jobs))


def pin_to_processor(processor: int) -> None:
    """Keep this process and all processes that it starts on one processor."""
    with contextlib.suppress(OSError):  # it may have been taken from this process meanwhile
        os.sched_setaffinity(0, {processor})


def grade_all(
    sandbox: Sandbox,
    found: Supply,
    settings: Settings,
    emit: Listener = ignore,
) -> Generator[GradedSubmission, None, None]:
    """Yield all submissions with their records: those of a sequence in order, others when graded.

    The next submission is taken when a worker is free. With one job, this process and its sandbox
    grade, and emit events. With several jobs, the same number of workers grade. Raises SandboxError
    and internal errors.
    """
    jobs = settings.jobs or choose_worker_count(len(found))
    if jobs == 1:
        gc.freeze()
        judged = JudgedCode()
        for submission in found:
            yield submission, grade_file(sandbox, submission, settings, emit, judged)
        return
    trusted = isinstance(sandbox, UnconfinedSandbox) or sandbox.trusted
    zygote = None if isinstance(sandbox, UnconfinedSandbox) else sandbox.zygote
    pool = WorkerPool([Worker(settings, trusted, own, zygote) for own in assign_processors(jobs)])
    with contextlib.closing(pool), ThreadPoolExecutor(jobs) as threads:
        try:
            yield from _grade_with_threads(pool, threads, found)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.dismiss("the run was broken off")


def _grade_with_threads(
    pool: "WorkerPool", threads: ThreadPoolExecutor, found: Supply
) -> Iterator[GradedSubmission]:
    """Keep all workers busy, and take no submission before a worker is free."""
    begun: list[_Begun] = []
    ordered = isinstance(found, Sequence)
    for submission in found:
        begun.append((submission, threads.submit(pool.grade, submission)))
        while len(open_ := [each for _, each in begun if not each.done()]) == len(pool.workers):
            wait(open_, return_when=FIRST_COMPLETED)
        yield from _pop_graded(begun, ordered)
    while begun:
        left = [each for _, each in begun]
        wait(left[:1] if ordered else left, return_when=FIRST_COMPLETED)
        yield from _pop_graded(begun, ordered)


def _pop_graded(begun: list[_Begun], ordered: bool) -> Iterator[GradedSubmission]:
    """Remove and yield what is graded; if the order matters, only what nothing is open before."""
    for each in tuple(begun):
        submission, records = each
        if records.done():
            begun.remove(each)
            yield submission, records.result()
        elif ordered:
            return


@dataclass(frozen=True)
class WorkerTask:
    """The settings that a worker needs before it grades."""

    settings: Settings
    trusted: bool
    processor: int | None
    environment: Mapping[str, str]
    folder: str
    """the working folder, to which the paths of submissions are relative"""


@dataclass(frozen=True)
class RunningWorker:
    """A process that grades submissions, and the connection to it."""

    process: ForkedProcess | BaseProcess
    connection: Connection

    def kill(self) -> None:
        """End the process, its fork server and children; a thread waiting for it gets EOFError."""
        self.process.kill()

    def close(self) -> None:
        """Kill the process and release its resources. No other thread may still be using it."""
        self.kill()
        if isinstance(self.process, ForkedProcess):
            self.process.wait(EXIT_TIMEOUT_S)
            self.process.close()
        else:
            self.process.join()
        self.connection.close()


@dataclass(eq=False)
class Worker:
    """One worker process, started when it is first needed, and used by one thread at a time."""

    settings: Settings
    trusted: bool
    processor: int | None = None
    """the processor that the worker stays on; None if it may use any"""
    zygote: Zygote | None = None
    running: RunningWorker | None = None
    dismissal_reason: str = ""
    """why the worker has stopped grading; empty if it has not"""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def grade(self, submission: Submission) -> list[SubmissionRecord]:
        """Grade one submission; no verdict if the worker dies every time. Raises SandboxError."""
        why: SandboxError | None = None
        for _ in range(MAX_TRIES):
            try:
                answer = self._request(submission)
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
        if why is not None:
            raise why
        return [record_busy(submission, self.settings, DIED)]

    def _request(self, submission: Submission) -> list[SubmissionRecord] | Exception:
        """Send a submission, and return the answer.

        Raises SandboxError, ZygoteGone, and EOFError or OSError if the process dies.
        """
        running = self.running or self._start()
        running.connection.send(submission)
        answer: list[SubmissionRecord] | Exception = running.connection.recv()
        return answer

    def _start(self) -> RunningWorker:
        """Start a process. Raises SandboxError (if dismissed), ZygoteGone or OSError."""
        self._refuse_if_dismissed()
        connection, other_end = SPAWN_CONTEXT.Pipe()
        with other_end:
            try:
                running = RunningWorker(self._start_process(other_end), connection)
            except BaseException:
                connection.close()
                raise
        with self.lock:
            self.running = running
        self._refuse_if_dismissed()  # it was dismissed while it started
        here = dict(os.environ), str(Path.cwd())
        connection.send(WorkerTask(self.settings, self.trusted, self.processor, *here))
        return running

    def _refuse_if_dismissed(self) -> None:
        if self.dismissal_reason:
            raise SandboxError(self.dismissal_reason)

    def _start_process(self, connection: Connection) -> ForkedProcess | BaseProcess:
        """Fork the zygote, or start an interpreter. Raises ZygoteGone."""
        if self.zygote is not None:
            branch = self.zygote.connect()
            return self.zygote.fork(WORKER_ENTRY_POINT, [os.dup(connection.fileno()), branch])
        process = SPAWN_CONTEXT.Process(target=work, args=(connection,), daemon=True)
        process.start()
        return process

    def dismiss(self, why: str) -> None:
        """Stop grading: a thread that is waiting for an answer gets an error with this reason."""
        with self.lock:
            self.dismissal_reason = self.dismissal_reason or why
            if self.running is not None:
                self.running.kill()

    def close(self) -> None:
        """End the process. No other thread may still be waiting for it."""
        with self.lock:
            running, self.running = self.running, None
        if running is not None:
            running.close()


@dataclass(eq=False)
class WorkerPool:
    """Workers, and a queue of those that are idle."""

    workers: Sequence[Worker]
    idle: "queue.SimpleQueue[Worker]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        for worker in self.workers:
            self.idle.put(worker)

    def grade(self, submission: Submission) -> list[SubmissionRecord]:
        """Let an idle worker grade a submission; on an error, dismiss the whole pool."""
        worker = self.idle.get()
        try:
            return worker.grade(submission)
        except Exception as error:
            self.dismiss(str(error))
            raise
        finally:
            self.idle.put(worker)

    def dismiss(self, why: str) -> None:
        """Stop all workers; threads that are waiting for a worker get an error with this reason."""
        for worker in self.workers:
            worker.dismiss(why)

    def close(self) -> None:
        """End all workers. Call this when no thread uses them any more."""
        for worker in self.workers:
            worker.close()


def begin(parent: int, descriptor: int, branch: int) -> None:
    """Run a worker that was forked from a zygote and ends when the zygote ends."""
    with Connection(descriptor) as connection:
        work(connection, Zygote(socket.socket(fileno=branch)))


def work(connection: Connection, zygote: Zygote | None = None) -> None:
    """Run a worker: grade incoming submissions until the connection closes or breaks."""
    # The process that started this one handles interrupts.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        task: WorkerTask = connection.recv()
        _apply_task(task)
        try:
            with create_sandbox(
                trusted=task.trusted, device=task.settings.device, ahead=zygote
            ) as sandbox:
                gc.freeze()
                _serve(connection, sandbox, task.settings)
        except SandboxError as error:  # there is no sandbox: the first request is answered so
            connection.recv()
            connection.send(error)
    except (EOFError, ConnectionError):  # reset, if it never read the last answer
        return


def _apply_task(task: WorkerTask) -> None:
    """Take on the environment and the working folder of the process that sent the task."""
    os.environ.clear()
    os.environ.update(task.environment)
    os.chdir(task.folder)
    if task.processor is not None:
        pin_to_processor(task.processor)
    torch.set_num_threads(1)


def _serve(connection: Connection, sandbox: Sandbox, settings: Settings) -> None:
    """Grade incoming submissions. An error that breaks this worker is sent as the last answer.

    Raises EOFError or ConnectionError when the connection is closed.
    """
    judged = JudgedCode()
    while True:
        submission = connection.recv()
        try:
            records = grade_file(sandbox, submission, settings, judged=judged)
        except Exception as error:
            connection.send(error)
            return
        connection.send(records)
