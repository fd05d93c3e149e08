"""Hosts in this process, and what was made from definitions of a test."""

from collections.abc import Callable
from typing import Any

import nbformat
import torch

from grader.sandbox.grader_side.subject import ChannelModule, ChannelSubject, InProcess
from grader.sandbox.wire import Message
from grader.sandbox.worker.runtime import Host


def subject(**namespace: Any) -> ChannelSubject:
    return ChannelSubject(InProcess(Host({"__name__": "submission", **namespace})))


def made(maker: Callable[..., Any], /, **arguments: Any) -> ChannelModule:
    module = subject(Wanted=maker).construct("Wanted", arguments, None)
    assert isinstance(module, ChannelModule)
    return module


def function(called: Callable[..., Any]) -> ChannelModule:
    found = subject(wanted=called).function("wanted")
    assert isinstance(found, ChannelModule)
    return found


def source(*cells: str) -> bytes:
    v4 = nbformat.v4
    written = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    return str(nbformat.writes(written)).encode()


def read(host: Host, data: bytes, kind: str = "ipynb") -> Message:
    sent = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return host.answer(Message(1, "read", {"kind": kind}, (("source", sent),)))


def loaded(*cells: str, names: tuple[str, ...] = ("Wanted",)) -> tuple[Host, Message]:
    host = Host()
    assert read(host, source(*cells)).op == "ok"
    return host, host.answer(Message(2, "load", {"names": names}))
