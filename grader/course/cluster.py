"""Grade on several machines: the workers of a Dask cluster.

A worker of the cluster is a grader process like the local one: for its first task it starts its own
fork server, and submissions run in that server's confined children. It receives a file's bytes and
the settings, and returns records as JSON. Dask reassigns the tasks of a lost worker.

All processes need the same versions of headcheck and torch; workers with other versions are
rejected, because their verdicts could differ.
"""

import contextlib
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch
from distributed import Client, KilledWorker

from headcheck.grader.course.store import manifest
from headcheck.grader.grading import worker_pool
from headcheck.grader.grading.grade import grade_file
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.ungraded import record_busy, record_unreadable
from headcheck.grader.grading.worker_pool import GradedSubmission, Sandbox
from headcheck.grader.reading import submission
from headcheck.grader.reading.siblings import gather_siblings
from headcheck.grader.reading.submission import Submission, UnreadableSubmission
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import SandboxError
from headcheck.grader.sandbox.isolation import IsolationLevel

QUEUED_PER_WORKER = 4
"""pending submissions per worker thread"""
CONNECT_S = 30
JOIN_S = 60
"""how long to wait for the first worker"""
MAX_TRIES = 3
"""how many times a submission is sent to Dask, which by default tries four workers each time"""
CLUSTER_LOST = "the cluster is gone; finished judgements are kept, and the same command continues"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GraderVersion:
    """The versions on which verdicts depend, in addition to the settings."""

    judge: str
    torch: str


def get_grader_version() -> GraderVersion:
    """Return the versions in this process."""
    return GraderVersion(manifest.digest_source(), str(torch.__version__))


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """The settings with which a worker must grade a submission."""

    version: GraderVersion
    settings: Settings
    trusted: bool


@dataclass(frozen=True, slots=True)
class PendingSubmission:
    """A submission sent to the cluster; one without a future could not be read."""

    handed_in: Submission
    data: bytes
    future: Any
    problem: str = ""


# ---------------------------------------------------------------------------- client


class Cluster:
    """The workers of a Dask scheduler. Use as a context manager.

    Raises SandboxError if no scheduler answers, no worker joins, or a worker cannot confine
    submissions, unless these are trusted.
    """

    def __init__(self, url: str, *, trusted: bool) -> None:
        self.trusted = trusted
        try:
            self.client = Client(url, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SandboxError(f"{url}: no scheduler of a Dask cluster answers: {error}") from None
        self.isolation_level = IsolationLevel("C", ())

    def __enter__(self) -> "Cluster":
        try:
            self.client.wait_for_workers(1, timeout=JOIN_S)
            addresses = list(self.client.scheduler_info(n_workers=-1)["workers"])
            task = ClusterTask(get_grader_version(), Settings(), self.trusted)
            levels = [self._submit(get_isolation_level, task, workers=[each]) for each in addresses]
            # The weakest worker counts; levels are named A to D.
            self.isolation_level = max(map(_get_result, levels), key=lambda each: each.name)
        except TimeoutError:
            self.client.close()
            raise SandboxError(f"no worker has joined the cluster within {JOIN_S} s") from None
        except BaseException:
            self.client.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # a lost worker has nothing to release
            self.client.run(release_worker)
        self.client.close()

    def grade_all(
        self, submissions: Sequence[Submission], settings: Settings
    ) -> Generator[GradedSubmission, None, None]:
        """Yield every submission with its records, in order. Raises SandboxError."""
        task = ClusterTask(get_grader_version(), settings, self.trusted)
        limit = settings.get_limits(settings.exercise).source
        todo = (self._send(each, task, limit) for each in submissions)
        threads = sum(self.client.nthreads().values())
        pending = deque(islice(todo, QUEUED_PER_WORKER * max(threads, 1)))
        try:
            while pending:
                first = pending.popleft()
                yield first.handed_in, self._collect_records(first, task, settings)
                pending.extend(islice(todo, 1))
        finally:
            self.client.cancel([each.future for each in pending if each.future is not None])

    def _send(self, handed_in: Submission, task: ClusterTask, limit: int) -> PendingSubmission:
        try:
            data = submission.read_submission(handed_in, limit)
        except UnreadableSubmission as error:
            return PendingSubmission(handed_in, b"", None, str(error))
        # Workers have no files but those that they are sent.
        complete = replace(handed_in, siblings=gather_siblings(handed_in, data, limit))
        future = self._submit(grade_submission, task, complete, data)
        return PendingSubmission(complete, data, future)

    def _submit(self, action: Callable[..., T], *arguments: Any, **options: Any) -> Any:
        # Not pure: Dask must not reuse the result of an equal call.
        return self.client.submit(
            action, *arguments, pure=False, allow_other_workers="workers" in options, **options
        )

    def _collect_records(
        self, pending: PendingSubmission, task: ClusterTask, settings: Settings
    ) -> list[SubmissionRecord]:
        """Return a submission's records; send it again if its workers died."""
        handed_in, future = pending.handed_in, pending.future
        if future is None:
            return [record_unreadable(handed_in, settings, pending.problem)]
        for _ in range(MAX_TRIES):
            try:
                return msgspec.json.decode(_get_result(future), type=list[SubmissionRecord])
            except KilledWorker:
                future = self._submit(grade_submission, task, handed_in, pending.data)
        return [record_busy(handed_in, settings, worker_pool.DIED)]


def _get_result(future: Any) -> Any:
    try:
        return future.result()
    except (OSError, CancelledError) as error:
        raise SandboxError(f"{CLUSTER_LOST} ({type(error).__name__})") from None


# ---------------------------------------------------------------------------- worker


@dataclass(eq=False)
class WorkerState:
    """The state that a worker process keeps between submissions."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """one submission at a time, even if the worker has several threads"""
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    sandbox: Sandbox | None = None
    sandbox_options: tuple[bool, str] = (False, "")

    def ensure_sandbox(self, task: ClusterTask) -> Sandbox:
        """Return the sandbox; start a new one if the task needs another. Raises SandboxError."""
        if get_grader_version() != task.version:
            text = "a worker of the cluster has another version of headcheck or torch"
            raise SandboxError(f"{text}: install the same there")
        options = (task.trusted, task.settings.device)
        if self.sandbox is None or self.sandbox_options != options:
            self.close()
            torch.set_num_threads(1)
            sandbox = worker_pool.create_sandbox(trusted=task.trusted, device=task.settings.device)
            self.stack.enter_context(sandbox)
            self.sandbox, self.sandbox_options = sandbox, options
        return self.sandbox

    def close(self) -> None:
        """End the fork server and its children."""
        self.stack.close()
        self.sandbox = None


@cache
def get_worker_state() -> WorkerState:
    """Return the state of this process."""
    return WorkerState()


def get_isolation_level(task: ClusterTask) -> IsolationLevel:
    """Return a worker's isolation level. Raises SandboxError."""
    with get_worker_state().lock:
        return get_worker_state().ensure_sandbox(task).isolation_level


def grade_submission(task: ClusterTask, handed_in: Submission, data: bytes) -> bytes:
    """Grade a submission in a worker; return its records as JSON. Raises SandboxError."""
    with get_worker_state().lock, tempfile.TemporaryDirectory(prefix="headcheck-") as folder:
        sandbox = get_worker_state().ensure_sandbox(task)
        path = Path(folder, f"submission.{handed_in.kind}")
        path.write_bytes(data)
        copy = replace(handed_in, path=path, submitted_by=handed_in.student)
        try:
            records = grade_file(sandbox, copy, task.settings)
        except SandboxError:
            get_worker_state().close()  # the next submission starts another fork server
            raise
        return msgspec.json.encode(records)


def release_worker() -> None:
    """Close a worker's sandbox, unless another run is using it."""
    state = get_worker_state()
    if state.lock.acquire(blocking=False):
        try:
            state.close()
        finally:
            state.lock.release()
