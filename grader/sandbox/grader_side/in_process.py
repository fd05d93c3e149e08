"""Run trusted code in the grader process, where nothing can be confined.

This is used on macOS and Windows, and for GPUs. The verdicts are the same as in a sandbox, but
there is no boundary, and the only limit is on the total processor time of all calls.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from headcheck.grader.sandbox.grader_side.subject import InProcessChannel
from headcheck.grader.sandbox.isolation import make_unconfined_level
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.timing import NO_TIME, RequestTime
from headcheck.grader.sandbox.wire import Message


@dataclass(eq=False)
class InProcessRunner(InProcessChannel):
    """A submission in the grader process itself."""

    closed: bool = False
    killed_by_others: bool = False
    cpu: float = 0.0
    last_request_time: RequestTime = NO_TIME

    def request(
        self,
        op: str,
        meta: Mapping[str, Any],
        tensors: tuple[tuple[str, Tensor], ...] = (),
        within: float | None = None,
        idle: float = math.inf,
    ) -> Message:
        """Make one request without a limit, since a call cannot be interrupted here."""
        began = time.thread_time()
        try:
            return super().request(op, meta, tensors)
        finally:
            self.last_request_time = RequestTime(time.thread_time() - began)

    def close(self) -> None:
        self.closed = True


class UnconfinedSandbox:
    """Stands in for a fork server. Use as a context manager."""

    def __init__(self, why: str) -> None:
        self.isolation_level = make_unconfined_level(why)

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> InProcessRunner:
        """Return a runner with a worker runtime of its own for one submission."""
        from headcheck.grader.sandbox.worker.runtime import WorkerRuntime

        return InProcessRunner(WorkerRuntime())

    def __enter__(self) -> "UnconfinedSandbox":
        return self

    def __exit__(self, *_: object) -> None:
        pass
