"""The fork server: prepares the jail once, and forks a confined child for every submission.

Theory of operation
    Starting an interpreter with torch takes 1.5 s; forking an interpreter that already has torch
    takes milliseconds. The fork server is forked from the zygote, which has loaded and warmed up
    everything that a child will need. It prepares the jail (`grader/sandbox/server_side/jail`) and
    then waits on a control socket. A request carries limits and two file descriptors: the child's
    end of a socket pair, over which only the grader process talks to the child, and a pipe. The
    child writes `+` to the pipe once it is confined, before it receives the submission's first
    byte; later the server writes how the child ended. The reply carries a pidfd of the child, so
    that the grader process can kill the child, and never another process that was later given the
    same pid.

    The server must have a single thread when it forks: a thread pool alive at that moment leaves
    the child waiting for threads that do not exist there. It holds no secrets: every submission can
    read whatever is in its memory and environment. It ends with the grader process, when the
    control socket closes or a pidfd of the grader process becomes readable, and the kernel ends it
    with the zygote. When the server ends, its children end, too.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from headcheck.grader.sandbox import timing
from headcheck.grader.sandbox.isolation import Layer, determine_isolation_level
from headcheck.grader.sandbox.limits import SINGLE_THREAD_ENV, Limits
from headcheck.grader.sandbox.server_side.jail import (
    confine,
    file_grants,
    kernel,
    namespaces,
    privileges,
    probe,
)
from headcheck.grader.sandbox.server_side.jail.confine import Jail

EXIT_UNCONFINED = 70


def begin(zygote: int, control_fd: int, grader_process: int, left_out: Sequence[str]) -> None:
    """Confine this process, then serve until the grader process has ended."""
    control = socket.socket(fileno=control_fd)
    needed = file_grants.list_needed_paths()
    try:
        privileges.become_unprivileged(needed)
        kernel.die_with(zygote)
        watched = os.pidfd_open(grader_process)
        os.sched_setaffinity(0, os.sched_getaffinity(grader_process))  # the zygote's may differ
        missing = probe.find_missing_layers([Layer(name) for name in left_out], needed)
        level = determine_isolation_level(missing)
        control.send(json.dumps(asdict(level)).encode())
        stage = None
        if Layer.NAMESPACES in level.layers:
            stage = namespaces.set_up_stage(needed, file_grants.find_hidden_packages(needed))
        jail = confine.prepare_jail([Layer(name) for name in level.layers], stage)
    except (ConnectionError, ProcessLookupError):  # the grader process has ended
        sys.exit(1)
    except (privileges.CannotDropRoot, namespaces.NoStage, OSError) as error:
        with contextlib.suppress(ConnectionError):
            control.send(json.dumps({"error": str(error)}).encode())
        sys.exit(1)
    kernel.die_with(zygote)  # again: a change of user or capabilities cancels it
    gc.collect()
    gc.freeze()  # children then copy fewer pages
    with contextlib.suppress(ConnectionError):  # the grader process has ended; poll reports it next
        control.send(b"ready")
    serve(control, watched, jail)


def serve(control: socket.socket, grader_process: int, jail: Jail) -> None:
    """Fork a child for every request, and report how each ended."""
    children: dict[int, tuple[int, int]] = {}  # pidfd -> (pid, status pipe)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(grader_process, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd in children:
                poll.unregister(fd)
                report_end(fd, *children.pop(fd))
                continue
            data, fds = (b"", []) if fd == grader_process else receive_request(control)
            if not data:  # the grader process has ended
                for pid, _ in children.values():
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            started = start_child(control, jail, Limits(**json.loads(data)), *fds)
            if started is not None:
                pidfd, pid = started
                children[pidfd] = pid, fds[1]
                poll.register(pidfd, select.POLLIN)


def receive_request(control: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a request and its file descriptors; it is empty when the connection closes."""
    try:
        data, fds, *_ = socket.recv_fds(control, 65536, 2)
    except ConnectionError:  # the grader process was killed before it had read a reply
        return b"", []
    return data, fds


def start_child(
    control: socket.socket, jail: Jail, limits: Limits, ipc: int, status: int
) -> tuple[int, int] | None:
    """Fork a child, and reply with its pid and pidfd, or with the reason why there is none."""
    try:
        pid = jail.fork()
    except OSError as error:
        send_reply(control, str(error.strerror), [])
        os.close(ipc)
        os.close(status)
        return None
    if pid == 0:
        run_child(jail, limits, ipc, status)
    pidfd = os.pidfd_open(pid)
    send_reply(control, str(pid), [pidfd])
    os.close(ipc)
    return pidfd, pid


def send_reply(control: socket.socket, text: str, fds: list[int]) -> None:
    """Reply to a request, unless the grader process has ended, which poll reports next."""
    with contextlib.suppress(ConnectionError):
        socket.send_fds(control, [text.encode()], fds)


def report_end(pidfd: int, pid: int, status: int) -> None:
    """Write how a child ended to its status pipe; the grader process may have ended by then."""
    queued = timing.read_queued_time(Path(f"/proc/{pid}"))  # gone once the child is reaped
    _, code, usage = os.wait4(pid, 0)
    cpu = usage.ru_utime + usage.ru_stime
    end = {"signal": code & 0x7F, "cpu": cpu, "memory": usage.ru_maxrss, "queued": queued}
    with contextlib.suppress(BrokenPipeError):
        os.write(status, json.dumps(end).encode())
    os.close(status)
    os.close(pidfd)


def run_child(jail: Jail, limits: Limits, ipc: int, status: int) -> NoReturn:
    """Run in the child: confine it, report that it is confined, and answer requests."""
    clear_environment(jail)
    jail.attach(ipc, status)
    try:
        jail.confine(limits)
        block_answer_packages()
        os.write(confine.CONFINED_FD, b"+")
        os.close(confine.CONFINED_FD)
    except BaseException as error:
        os.write(confine.CONFINED_FD, f"-{type(error).__name__}: {error}"[:1000].encode())
        os._exit(EXIT_UNCONFINED)
    try:
        from headcheck.grader.sandbox.worker.serve import serve_requests

        serve_requests(confine.SOCKET_FD)
    except BaseException:
        os._exit(EXIT_UNCONFINED)
    os._exit(0)


def clear_environment(jail: Jail) -> None:
    """Reduce the environment to PATH, a locale, one thread, and the scratch folder."""
    home = "/nonexistent" if jail.stage is None else str(namespaces.get_scratch_folder(jail.stage))
    os.environ.clear()
    os.environ.update({"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MPLBACKEND": "Agg"})
    os.environ.update({"HOME": home, "TMPDIR": home, **SINGLE_THREAD_ENV})
    tempfile.tempdir = home  # some libraries ask for it on import, and no folder may be writable


def block_answer_packages() -> None:
    """Make the packages with answers, such as solutions, impossible to import."""
    for package in file_grants.ANSWER_PACKAGES:
        sys.modules[package] = None  # type: ignore[assignment]  # None means "not importable"
