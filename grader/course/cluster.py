"""Workers on several machines: a Dask cluster that judges.

A worker process of the cluster is an examiner like the one here: it starts a fork server of its own
when it is first asked, and submissions run in that one's confined children. What goes there is a
file's bytes and the settings, what comes back is records as JSON. Dask gives the work of a worker
that is lost to another one.

The processes of the cluster need the same headcheck and torch as this one; others are refused,
because their verdicts would be others.
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

from exercises import BY_SLUG
from grader.course.store import manifest
from grader.grading import worker_pool
from grader.grading.grade import Settings, grade_file, record_unreadable
from grader.grading.worker_pool import GradedSubmission, Sandbox
from grader.reading import submission
from grader.reading.submission import Submission, UnreadableSubmission
from grader.report.records import SubmissionRecord
from grader.sandbox.grader_side.servers import SandboxError
from grader.sandbox.isolation import IsolationLevel

QUEUED_PER_WORKER = 4
"""submissions on their way for each worker"""
CONNECT_S = 30
JOIN_S = 60
"""how long the first worker may take to join"""
MAX_TRIES = 3
"""how often a submission is given to Dask, which itself tries workers four times by default"""
CLUSTER_LOST = "the cluster is gone; what was judged is kept, and the same command goes on"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GraderVersion:
    """What a verdict depends on, but for the settings."""

    judge: str
    torch: str


def get_grader_version() -> GraderVersion:
    """That of this process."""
    return GraderVersion(manifest.digest_source(), str(torch.__version__))


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """What a worker is told."""

    version: GraderVersion
    settings: Settings
    slug: str | None
    """the exercise, of which there is one object in each process"""
    trusted: bool


@dataclass(frozen=True, slots=True)
class PendingSubmission:
    """A submission that is on its way; without a future it could not be read."""

    handed_in: Submission
    data: bytes
    future: Any
    problem: str = ""


# ---------------------------------------------------------------------------- here


class Cluster:
    """The workers of a Dask scheduler. Use as a context manager.

    Raises SandboxError where no scheduler answers, no worker joins, or one of them cannot confine
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
            told = ClusterTask(get_grader_version(), Settings(), None, self.trusted)
            asked = [self._submit(get_isolation_level, told, workers=[each]) for each in addresses]
            # As well as submissions are confined at least.
            self.isolation_level = max(
                (_get_result(each) for each in asked), key=lambda each: each.name
            )
        except TimeoutError:
            self.client.close()
            raise SandboxError(f"no worker has joined the cluster within {JOIN_S} s") from None
        except BaseException:
            self.client.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # whoever is gone has nothing to end
            self.client.run(release_worker)
        self.client.close()

    def grade_all(
        self, found: Sequence[Submission], settings: Settings
    ) -> Generator[GradedSubmission, None, None]:
        """Every submission with its records, in order. Raises SandboxError."""
        slug = None if settings.exercise is None else settings.exercise.slug
        task = ClusterTask(
            get_grader_version(), replace(settings, exercise=None), slug, self.trusted
        )
        limit = settings.get_limits(settings.exercise).source
        todo = (self._send(each, task, limit) for each in found)
        threads = sum(self.client.nthreads().values())
        under_way = deque(islice(todo, QUEUED_PER_WORKER * max(threads, 1)))
        try:
            while under_way:
                sent = under_way.popleft()
                yield sent.handed_in, self._collect_records(sent, task, settings)
                under_way.extend(islice(todo, 1))
        finally:
            self.client.cancel([each.future for each in under_way if each.future is not None])

    def _send(self, handed_in: Submission, task: ClusterTask, limit: int) -> PendingSubmission:
        try:
            data = submission.read_submission(handed_in, limit)
        except UnreadableSubmission as unread:
            return PendingSubmission(handed_in, b"", None, str(unread))
        return PendingSubmission(
            handed_in, data, self._submit(grade_submission, task, handed_in, data)
        )

    def _submit(self, action: Callable[..., T], *arguments: Any, **options: Any) -> Any:
        # Nothing is ever taken for the same as something else.
        return self.client.submit(
            action, *arguments, pure=False, allow_other_workers="workers" in options, **options
        )

    def _collect_records(
        self, sent: PendingSubmission, task: ClusterTask, settings: Settings
    ) -> list[SubmissionRecord]:
        """What came back, whatever became of the workers that it was given to."""
        future = sent.future
        if future is None:
            return [record_unreadable(sent.handed_in, settings, sent.problem)]
        for _ in range(MAX_TRIES):
            try:
                return msgspec.json.decode(_get_result(future), type=list[SubmissionRecord])
            except KilledWorker:
                future = self._submit(grade_submission, task, sent.handed_in, sent.data)
        text = "every worker that judged it died; out of memory?"
        raise SandboxError(f"{sent.handed_in.display_path}: {text}")


def _get_result(future: Any) -> Any:
    try:
        return future.result()
    except (OSError, CancelledError) as error:
        raise SandboxError(f"{CLUSTER_LOST} ({type(error).__name__})") from None


# ---------------------------------------------------------------------------- there


@dataclass(eq=False)
class WorkerState:
    """What a worker process keeps from one submission to the next."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """one at a time: a worker may have been given several threads"""
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    sandbox: Sandbox | None = None
    sandbox_options: tuple[bool, str] = (False, "")

    def ensure_sandbox(self, task: ClusterTask) -> Sandbox:
        """A sandbox; the one that is there, if it fits. Raises SandboxError."""
        if get_grader_version() != task.version:
            text = "a worker of the cluster has another headcheck, or another torch, than this one"
            raise SandboxError(f"{text}: install the same there")
        wanted = (task.trusted, task.settings.device)
        if self.sandbox is None or self.sandbox_options != wanted:
            self.close()
            torch.set_num_threads(1)
            sandbox = worker_pool.create_sandbox(trusted=task.trusted, device=task.settings.device)
            self.stack.enter_context(sandbox)
            self.sandbox, self.sandbox_options = sandbox, wanted
        return self.sandbox

    def close(self) -> None:
        """End the fork server and its children."""
        self.stack.close()
        self.sandbox = None


@cache
def get_worker_state() -> WorkerState:
    """That of this process."""
    return WorkerState()


def get_isolation_level(task: ClusterTask) -> IsolationLevel:
    """How well a worker confines submissions. Raises SandboxError."""
    with get_worker_state().lock:
        return get_worker_state().ensure_sandbox(task).isolation_level


def grade_submission(task: ClusterTask, handed_in: Submission, data: bytes) -> bytes:
    """Judge a submission in a worker; its records as JSON. Raises SandboxError."""
    exercise = None if task.slug is None else BY_SLUG[task.slug]
    with get_worker_state().lock, tempfile.TemporaryDirectory(prefix="headcheck-") as folder:
        sandbox = get_worker_state().ensure_sandbox(task)
        path = Path(folder, f"submission.{handed_in.kind}")
        path.write_bytes(data)
        here = replace(handed_in, path=path, submitted_by=handed_in.student)
        try:
            records = grade_file(sandbox, here, replace(task.settings, exercise=exercise))
        except SandboxError:
            get_worker_state().close()  # the next one starts another fork server
            raise
        return msgspec.json.encode(records)


def release_worker() -> None:
    """End what a worker keeps, unless another run is using it."""
    if get_worker_state().lock.acquire(blocking=False):
        try:
            get_worker_state().close()
        finally:
            get_worker_state().lock.release()
