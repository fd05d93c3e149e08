"""The fork server: a process that has torch loaded, and forks a child for every submission.

Theory of operation
    Starting an interpreter with torch takes 1.5 s; forking one that has it takes milliseconds. This
    process is forked from the zygote, which has loaded and warmed up everything that a child will
    need. It prepares the jail (`grader/sandbox/server_side/jail`), then waits on a control socket.
    A request carries limits and two file descriptors: the child's end of a socket pair, over which
    the examiner will speak with the child alone, and a pipe. On the pipe the child says `+` once it
    is confined, before the submission's first byte has reached it; then this server tells how it
    ended. The answer carries the child's pid as a pidfd, so that the examiner can end it and never
    hit another process.

    The server must have a single thread when it forks: a thread pool alive at that moment leaves
    the child waiting for threads that do not exist there. It holds no secret: whatever is in its
    memory and environment can be read by every submission. It ends when the examiner does: the
    control socket closes, and a pidfd of the examiner becomes readable; and the kernel ends it with
    the zygote. Its children end with it in turn.
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

from grader.sandbox import timing
from grader.sandbox.isolation import Layer, determine_isolation_level
from grader.sandbox.limits import SINGLE_THREAD_ENV, Limits
from grader.sandbox.server_side.jail import (
    confine,
    file_grants,
    kernel,
    namespaces,
    privileges,
    probe,
)
from grader.sandbox.server_side.jail.confine import Jail

EXIT_UNCONFINED = 70


def begin(zygote: int, control_fd: int, grader_process: int, left_out: Sequence[str]) -> None:
    """Confine itself, then serve until the examiner is gone."""
    control = socket.socket(fileno=control_fd)
    needed = file_grants.list_needed_paths()
    try:
        privileges.become_unprivileged(needed)
        kernel.die_with(zygote)
        watched = os.pidfd_open(grader_process)
        os.sched_setaffinity(0, os.sched_getaffinity(grader_process))  # the zygote's may be others
        level = determine_isolation_level(
            probe.find_missing_layers([Layer(name) for name in left_out], needed)
        )
        control.send(json.dumps(asdict(level)).encode())
        stage = None
        if Layer.NAMESPACES in level.layers:
            stage = namespaces.set_up_stage(needed, file_grants.find_hidden_packages(needed))
        jail = confine.prepare_jail([Layer(name) for name in level.layers], stage)
    except (ConnectionError, ProcessLookupError):  # the examiner has ended
        sys.exit(1)
    except (privileges.CannotDropRoot, namespaces.NoStage, OSError) as error:
        with contextlib.suppress(ConnectionError):
            control.send(json.dumps({"error": str(error)}).encode())
        sys.exit(1)
    kernel.die_with(zygote)  # again: who it is has changed
    gc.collect()
    gc.freeze()  # children then copy fewer pages
    with contextlib.suppress(ConnectionError):  # the examiner has ended, which is heard next
        control.send(b"ready")
    serve(control, watched, jail)


def serve(control: socket.socket, grader_process: int, jail: Jail) -> None:
    """Fork a child for every request, and tell how each ended."""
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
            asked = None if fd == grader_process else receive_request(control)
            if asked is None:
                kill_children_and_exit(children)
            data, fds = asked
            started = start_child(control, jail, Limits(**json.loads(data)), *fds)
            if started is not None:
                pidfd, pid = started
                children[pidfd] = pid, fds[1]
                poll.register(pidfd, select.POLLIN)


def receive_request(control: socket.socket) -> tuple[bytes, list[int]] | None:
    """What is asked for, and the file descriptors that came with it; None if nobody asks."""
    try:
        data, fds, *_ = socket.recv_fds(control, 65536, 2)
    except ConnectionError:  # the examiner was killed with something unread
        return None
    return (data, fds) if data else None


def start_child(
    control: socket.socket, jail: Jail, limits: Limits, ipc: int, status: int
) -> tuple[int, int] | None:
    """Fork; the parent answers with the child's pidfd, or with why there is no child."""
    try:
        pid = jail.fork()
    except OSError as error:
        answer(control, str(error.strerror), [])
        os.close(ipc)
        os.close(status)
        return None
    if pid == 0:
        run_child(jail, limits, ipc, status)
    pidfd = os.pidfd_open(pid)
    answer(control, str(pid), [pidfd])
    os.close(ipc)
    return pidfd, pid


def answer(control: socket.socket, said: str, fds: list[int]) -> None:
    """Answer a request; if who asked has ended, that is heard next."""
    with contextlib.suppress(ConnectionError):
        socket.send_fds(control, [said.encode()], fds)


def report_end(pidfd: int, pid: int, status: int) -> None:
    """Write how a child ended on its pipe; the examiner may be gone by then."""
    queued = timing.read_queued_time(Path(f"/proc/{pid}"))  # as long as nobody has waited for it
    _, code, usage = os.wait4(pid, 0)
    cpu = usage.ru_utime + usage.ru_stime
    told = {"signal": code & 0x7F, "cpu": cpu, "memory": usage.ru_maxrss, "queued": queued}
    with contextlib.suppress(BrokenPipeError):
        os.write(status, json.dumps(told).encode())
    os.close(status)
    os.close(pidfd)


def kill_children_and_exit(children: dict[int, tuple[int, int]]) -> NoReturn:
    """The examiner is gone: take the children along."""
    for pid, _ in children.values():
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def run_child(jail: Jail, limits: Limits, ipc: int, status: int) -> NoReturn:
    """In the child: be confined, say so, and serve the submission's host."""
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
        from grader.sandbox.worker.serve import serve_requests

        serve_requests(confine.SOCKET_FD)
    except BaseException:
        os._exit(EXIT_UNCONFINED)
    os._exit(0)


def clear_environment(jail: Jail) -> None:
    """Leave a path, a locale, one thread, and the folder that may be written into."""
    home = "/nonexistent" if jail.stage is None else str(namespaces.get_scratch_folder(jail.stage))
    os.environ.clear()
    os.environ.update({"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MPLBACKEND": "Agg"})
    os.environ.update({"HOME": home, "TMPDIR": home, **SINGLE_THREAD_ENV})
    tempfile.tempdir = home  # libraries ask for it when they are imported, and it may be nowhere


def block_answer_packages() -> None:
    """Make the rooms that know the answers impossible to import: solutions are among them."""
    for room in file_grants.ANSWER_PACKAGES:
        sys.modules[room] = None  # type: ignore[assignment]  # how Python spells "not importable"
