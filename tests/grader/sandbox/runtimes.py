"""Hosts in this process, and what was made from definitions of a test."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.grader.sandbox import operations
from headcheck.grader.sandbox.grader_side.subject import (
    ChannelModule,
    ChannelSubject,
    InProcessChannel,
)
from headcheck.grader.sandbox.wire import Message
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from tests.notebooks import write_notebook


def make_subject(**namespace: Any) -> ChannelSubject:
    return ChannelSubject(InProcessChannel(WorkerRuntime({"__name__": "submission", **namespace})))


def open_source(source: str, *names: str) -> ChannelSubject:
    """Return a subject that has read a module and loaded names of it."""
    subject = ChannelSubject(InProcessChannel(WorkerRuntime()))
    data = torch.frombuffer(bytearray(source.encode()), dtype=torch.uint8)
    subject.ask(operations.READ, {"kind": "py"}, (("source", data),))
    reply, _ = subject.ask(operations.LOAD, {"names": names})
    while reply.importing is not None:
        subject.ask(operations.IMPORT_NEXT, {})
        reply, _ = subject.ask(operations.RESUME, {})
    return subject


def make_module(maker: Callable[..., Any], /, **arguments: Any) -> ChannelModule:
    module = make_subject(Wanted=maker).construct("Wanted", arguments, None)
    assert isinstance(module, ChannelModule)
    return module


def make_function(called: Callable[..., Any]) -> ChannelModule:
    found = make_subject(wanted=called).get_function("wanted")
    assert isinstance(found, ChannelModule)
    return found


def send_read(host: WorkerRuntime, data: bytes, kind: str = "ipynb") -> Message:
    sent = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return host.answer(Message(1, "read", {"kind": kind}, (("source", sent),)))


def send_load(host: WorkerRuntime, *names: str) -> Message:
    """Load names, as a session does: with a request of its own for each import."""
    reply = host.answer(Message(2, "load", {"names": names}))
    while reply.meta.get("importing"):
        assert host.answer(Message(3, "import_next", {})).op == "ok"
        reply = host.answer(Message(4, "resume", {}))
    return reply


def load_cells(*cells: str, names: tuple[str, ...] = ("Wanted",)) -> tuple[WorkerRuntime, Message]:
    host = WorkerRuntime()
    assert send_read(host, write_notebook(*cells)).op == "ok"
    return host, send_load(host, *names)


class Product(nn.Module):
    """x @ w, where w may be registered or not."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        w = torch.tensor([[2.0], [3.0]])
        self.w = nn.Parameter(w, requires_grad=kind != "frozen") if kind != "plain" else w
        self.unused = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w
