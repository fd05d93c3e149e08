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
from grader.grading.grade import Settings, graded, unopened
from grader.grading.worker_pool import Graded, Place
from grader.reading import submission
from grader.reading.submission import Submission, Unopened
from grader.report.records import SubmissionRecord
from grader.sandbox.grader_side.servers import SandboxError
from grader.sandbox.isolation import Rung

AHEAD = 4
"""submissions on their way for each worker"""
CONNECT_S = 30
JOIN_S = 60
"""how long the first worker may take to join"""
TRIES = 3
"""how often a submission is given to Dask, which itself tries workers four times by default"""
GONE = "the cluster is gone; what was judged is kept, and the same command goes on"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Version:
    """What a verdict depends on, but for the settings."""

    judge: str
    torch: str


def version() -> Version:
    """That of this process."""
    return Version(manifest.source(), str(torch.__version__))


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is told."""

    version: Version
    settings: Settings
    slug: str | None
    """the exercise, of which there is one object in each process"""
    trusted: bool


@dataclass(frozen=True, slots=True)
class Sent:
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
        self.rung = Rung("C", ())

    def __enter__(self) -> "Cluster":
        try:
            self.client.wait_for_workers(1, timeout=JOIN_S)
            addresses = list(self.client.scheduler_info(n_workers=-1)["workers"])
            told = Task(version(), Settings(), None, self.trusted)
            asked = [self._submit(rung, told, workers=[each]) for each in addresses]
            # As well as submissions are confined at least.
            self.rung = max((_result(each) for each in asked), key=lambda each: each.name)
        except TimeoutError:
            self.client.close()
            raise SandboxError(f"no worker has joined the cluster within {JOIN_S} s") from None
        except BaseException:
            self.client.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # whoever is gone has nothing to end
            self.client.run(leave)
        self.client.close()

    def judged(
        self, found: Sequence[Submission], settings: Settings
    ) -> Generator[Graded, None, None]:
        """Every submission with its records, in order. Raises SandboxError."""
        slug = None if settings.exercise is None else settings.exercise.slug
        task = Task(version(), replace(settings, exercise=None), slug, self.trusted)
        limit = settings.limits_for(settings.exercise).source
        todo = (self._sent(each, task, limit) for each in found)
        threads = sum(self.client.nthreads().values())
        under_way = deque(islice(todo, AHEAD * max(threads, 1)))
        try:
            while under_way:
                sent = under_way.popleft()
                yield sent.handed_in, self._records(sent, task, settings)
                under_way.extend(islice(todo, 1))
        finally:
            self.client.cancel([each.future for each in under_way if each.future is not None])

    def _sent(self, handed_in: Submission, task: Task, limit: int) -> Sent:
        try:
            data = submission.read(handed_in, limit)
        except Unopened as unread:
            return Sent(handed_in, b"", None, str(unread))
        return Sent(handed_in, data, self._submit(judge, task, handed_in, data))

    def _submit(self, action: Callable[..., T], *arguments: Any, **options: Any) -> Any:
        # Nothing is ever taken for the same as something else.
        return self.client.submit(
            action, *arguments, pure=False, allow_other_workers="workers" in options, **options
        )

    def _records(self, sent: Sent, task: Task, settings: Settings) -> list[SubmissionRecord]:
        """What came back, whatever became of the workers that it was given to."""
        future = sent.future
        if future is None:
            return [unopened(sent.handed_in, settings, sent.problem)]
        for _ in range(TRIES):
            try:
                return msgspec.json.decode(_result(future), type=list[SubmissionRecord])
            except KilledWorker:
                future = self._submit(judge, task, sent.handed_in, sent.data)
        text = "every worker that judged it died; out of memory?"
        raise SandboxError(f"{sent.handed_in.shown}: {text}")


def _result(future: Any) -> Any:
    try:
        return future.result()
    except (OSError, CancelledError) as error:
        raise SandboxError(f"{GONE} ({type(error).__name__})") from None


# ---------------------------------------------------------------------------- there


@dataclass(eq=False)
class Home:
    """What a worker process keeps from one submission to the next."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """one at a time: a worker may have been given several threads"""
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    place: Place | None = None
    kept: tuple[bool, str] = (False, "")

    def ready(self, task: Task) -> Place:
        """A sandbox; the one that is there, if it fits. Raises SandboxError."""
        if version() != task.version:
            text = "a worker of the cluster has another headcheck, or another torch, than this one"
            raise SandboxError(f"{text}: install the same there")
        wanted = (task.trusted, task.settings.device)
        if self.place is None or self.kept != wanted:
            self.end()
            torch.set_num_threads(1)
            place = worker_pool.sandbox(trusted=task.trusted, device=task.settings.device)
            self.stack.enter_context(place)
            self.place, self.kept = place, wanted
        return self.place

    def end(self) -> None:
        """End the fork server and its children."""
        self.stack.close()
        self.place = None


@cache
def home() -> Home:
    """That of this process."""
    return Home()


def rung(task: Task) -> Rung:
    """How well a worker confines submissions. Raises SandboxError."""
    with home().lock:
        return home().ready(task).rung


def judge(task: Task, handed_in: Submission, data: bytes) -> bytes:
    """Judge a submission in a worker; its records as JSON. Raises SandboxError."""
    exercise = None if task.slug is None else BY_SLUG[task.slug]
    with home().lock, tempfile.TemporaryDirectory(prefix="headcheck-") as folder:
        place = home().ready(task)
        path = Path(folder, f"submission.{handed_in.kind}")
        path.write_bytes(data)
        here = replace(handed_in, path=path, by=handed_in.student)
        try:
            records = graded(place, here, replace(task.settings, exercise=exercise))
        except SandboxError:
            home().end()  # the next one starts another fork server
            raise
        return msgspec.json.encode(records)


def leave() -> None:
    """End what a worker keeps, unless another run is using it."""
    if home().lock.acquire(blocking=False):
        try:
            home().end()
        finally:
            home().lock.release()
