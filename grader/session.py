"""One submission at the other end of a channel, brought back when its process is gone."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from grader.sandbox.limits import Limits
from grader.sandbox.process import Child, Server
from grader.sandbox.wire import Message
from grader.sandbox.worker.landmarks import Landmark
from grader.subject import failure, taken
from properties.violation import Status, SubmissionFailed


@dataclass(frozen=True)
class _Loaded:
    remarks: list[dict[str, Any]]
    landmarks: list[Landmark]


@dataclass(eq=False)
class Session:
    """A channel that starts a fresh child when the old one is gone.

    Objects made in the old child are gone with it; whoever holds their handles asks `revive` first.
    """

    server: Server
    data: bytes
    kind: str
    limits: Limits
    names: tuple[str, ...] = ()
    began: float = field(default_factory=time.monotonic)
    child: Child | None = None
    landmarks: tuple[Landmark, ...] = ()
    """where in the code of what was loaded the steps of attention are"""

    def read(self) -> Mapping[str, Any]:
        """The outline of the submission, read without running it. Raises SubmissionFailed."""
        return dict(self._begin().meta["outline"])

    def load(self, *names: str) -> list[dict[str, Any]]:
        """Run what definitions need; the remarks on the first. Raises SubmissionFailed."""
        self.names = names
        if self.child is None or self.child.closed:
            self._begin()
        loaded = taken(self._ask("load", {"names": names}), _Loaded)
        self.landmarks = tuple(loaded.landmarks)
        return loaded.remarks

    def revive(self) -> bool:
        """Whether the child was gone and a fresh one has been made. Raises SubmissionFailed."""
        if self.child is not None and not self.child.closed:
            return False
        self._begin()
        if self.names:
            self._ask("load", {"names": self.names})
        return True

    def request(
        self, op: str, meta: Mapping[str, Any], tensors: tuple[tuple[str, Tensor], ...] = ()
    ) -> Message:
        """One request to the present child. Raises SubmissionFailed."""
        if time.monotonic() - self.began > self.limits.wall_s:
            text = f"took more than {self.limits.wall_s:g} s in all"
            raise SubmissionFailed(Status.TIMED_OUT, text)
        assert self.child is not None, "read or load before asking"
        return self.child.request(op, meta, tensors)

    def close(self) -> None:
        """End the child."""
        if self.child is not None:
            self.child.close()

    def _begin(self) -> Message:
        self.close()
        self.child = self.server.child(self.limits)
        source = torch.frombuffer(bytearray(self.data or b"\n"), dtype=torch.uint8)
        return self._ask("read", {"kind": self.kind}, (("source", source),))

    def _ask(
        self, op: str, meta: Mapping[str, Any], tensors: tuple[tuple[str, Tensor], ...] = ()
    ) -> Message:
        reply = self.request(op, meta, tensors)
        if reply.op == "raised":
            raise failure(reply.meta)
        return reply
