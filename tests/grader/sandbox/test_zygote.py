"""The zygote: what it forks knows what it is told and nothing else, and ends with it."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from headcheck.grader.sandbox.grader_side import launch
from headcheck.grader.sandbox.grader_side.launch import Zygote, ZygoteGone
from headcheck.grader.sandbox.server_side.zygote import ForkService

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="pidfd and /proc are Linux's"),
    pytest.mark.own_zygote,
]
TELL, SLEEP = "tests.grader.sandbox.forks:tell", "tests.grader.sandbox.forks:sleep"


ROOT = Path(__file__).resolve().parents[3]


def started() -> Zygote:
    """A zygote that also finds the functions of the tests, where headcheck is installed."""
    popen = subprocess.Popen

    def with_tests(command: list[str], *, env: dict[str, str], **given: Any) -> Any:
        return popen(command, env={**env, "PYTHONPATH": f"{env['PYTHONPATH']}:{ROOT}"}, **given)

    with mock.patch.object(subprocess, "Popen", with_tests):
        return launch.start_zygote()


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCHECK_TEST_CANARY", "a secret of the grader's")
        there = started()
    with there:
        yield there


def said(zygote: Zygote, call: str, *arguments: object) -> bytes:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        process = zygote.fork(call, [writing], *arguments)
        text = pipe.read()
    assert process.wait(10)
    process.close()
    return text


def test_forked_process_has_torch_and_its_arguments(zygote: Zygote) -> None:
    assert zygote.process is not None
    told = json.loads(said(zygote, TELL, "one", [2, None]))
    assert told["given"] == [zygote.process.pid, "one", [2, None]]
    assert told["parent"] == zygote.process.pid
    assert told["torch"] and told["rooms"] == [] and told["needless"] == []
    assert "OMP_NUM_THREADS" in told["environment"]
    assert not any(name.startswith(("HEADCHECK", "PYTEST")) for name in told["environment"])


def test_error_in_a_forked_process_is_reported_and_contained(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with started() as zygote:  # its messages go where ours went when it was started
        assert said(zygote, "tests.grader.sandbox.forks:nothing") == b""
        assert "AttributeError" in capfd.readouterr().err
        assert json.loads(said(zygote, TELL))["torch"]


def test_another_process_has_its_own_connection(zygote: Zygote) -> None:
    with Zygote(zygote.connect()) as other:
        assert json.loads(said(other, TELL, 1))["given"][1:] == [1]
    assert json.loads(said(zygote, TELL))["torch"], "who hangs up takes nobody along"


def test_dead_requester_harms_nobody(zygote: Zygote) -> None:
    line = zygote.connect()
    request = json.dumps({"call": "builtins:max", "arguments": [1]}).encode()
    with Path(os.devnull).open("wb") as nothing:
        socket.send_fds(line, [request], [nothing.fileno()])
    line.close()  # before the answer
    assert json.loads(said(zygote, TELL))["torch"]


def test_failed_fork_is_reported_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The zygote's own code, run here, where its fork can be made to fail."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading, writing = os.pipe()
    service = ForkService(theirs, os.pidfd_open(os.getpid()))

    def fail() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fail)
    answering = threading.Thread(target=service.handle_request, args=(theirs,))
    answering.start()
    before = Zygote(ours)
    with pytest.raises(ZygoteGone, match="no process can be started: Resource temporarily"):
        before.fork(SLEEP, [writing])
    answering.join()
    assert os.read(reading, 1) == b"", "nobody holds the other end any more"
    for fd in (reading, service.grader_process):
        os.close(fd)
    ours.close()
    theirs.close()


def test_forked_processes_end_with_the_zygote() -> None:
    with started() as zygote:
        reading, writing = os.pipe()
        sleeper = zygote.fork(SLEEP, [writing])
        assert os.read(reading, 4) == b"here"
        assert not sleeper.wait(0)
    assert sleeper.wait(10)
    sleeper.kill()  # for nothing
    sleeper.close()
    os.close(reading)
    with pytest.raises(ZygoteGone):
        zygote.connect()
    with pytest.raises(ZygoteGone):
        zygote.fork(SLEEP, [])
