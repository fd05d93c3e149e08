"""The zygote: a process that has torch loaded and warm, and does nothing but fork.

Theory of operation
    Importing torch and having it set itself up takes one to two seconds of processor time, and
    everything that judges needs it: a fork server for every worker, and every worker. So one
    process does it, and they are forked from it. It is started with an environment that holds
    nothing, imports nothing of the rooms that know the answers, and is told what to run by name,
    with file descriptors: all that is anybody's secret goes past it.

    It must have a single thread when it forks, as a fork server must. It ends when the process
    does that started it, and takes along what it forked. The kernel sees to that, so that it also
    holds for a process that is stopped: it ends the zygote with the thread that started it, and
    what was forked with the zygote, its parent. A thread may end before its process does; only a
    main thread does not, so a zygote that another one started does without once it is warm. It
    then sees the control socket close, and a pidfd of the process become readable.

    Run as: python -m grader.sandbox.server_side.zygote FD EXAMINER THREAD
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from grader.sandbox.server_side import uncompiled
from grader.sandbox.server_side.jail import kernel

MAX_FDS = 3
"""so many file descriptors go with a request"""
EXIT_FAILED = 70


def main(control_fd: int, grader_process: int, thread: int) -> None:
    """Warm up, then serve until the examiner is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the examiner
    kernel.die_with(grader_process)
    control = socket.socket(fileno=control_fd)
    watched = os.pidfd_open(grader_process)
    warm_up()
    refuse_threads()
    gc.collect()
    gc.freeze()  # what is forked then copies fewer pages
    if thread != grader_process:  # it may end any time, and the kernel would end us with it
        kernel.prctl(kernel.PR_SET_PDEATHSIG, 0)
    ForkService(control, watched).serve()


def warm_up() -> None:
    """Import what a submission is judged with, and have torch set itself up."""
    # torch imports dill where there is one, and dill asks for a folder that can be written into:
    # here is none, and every child gets its own.
    tempfile.tempdir = "/"
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    uncompiled.bypass_dynamo()
    import grader.sandbox.server_side.server
    import grader.sandbox.worker.serve
    from grader.sandbox.server_side import warmup

    x = torch.randn(2, 6, 8, requires_grad=True)
    y = torch.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0]
    y = torch.nn.functional.scaled_dot_product_attention(y, y, y) @ torch.randn(8, 8)
    # The first gradient with a cotangent imports sympy: hundreds of milliseconds.
    torch.autograd.grad(y.softmax(-1), [x], torch.ones_like(y))
    # The first operation on the meta device imports more of torch.
    scores = torch.ones(2, 2, device="meta").tril()
    weights = scores.masked_fill(scores == 0, -torch.inf).softmax(-1)
    torch.nn.functional.dropout(weights @ scores, 0.5)
    warmup.warm_up()
    assert grader.sandbox.worker.serve.serve_requests is not None
    assert grader.sandbox.server_side.server.begin is not None


def refuse_threads() -> None:
    """Raises SystemExit when this process has more than one thread."""
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) > 1:
        raise SystemExit("the zygote has more than one thread; it cannot fork safely")


class ForkService:
    """Forks for every request that comes over its lines, and sees off what has ended."""

    def __init__(self, control: socket.socket, grader_process: int) -> None:
        self.grader_process = grader_process
        self.essential_fds = (grader_process, control.fileno())
        """when one of them is closed, all is over"""
        self.connections = {control.fileno(): control}
        self.forked: dict[int, int] = {}  # pidfd -> pid
        self.poll = select.poll()
        for fd in self.essential_fds:
            self.poll.register(fd, select.POLLIN)

    def serve(self) -> NoReturn:
        """Until the examiner is gone."""
        while True:
            for fd, _ in self.poll.poll():
                if fd in self.forked:
                    self.reap(fd)
                elif fd not in self.connections or not self.handle_request(self.connections[fd]):
                    self.disconnect(fd)

    def reap(self, pidfd: int) -> None:
        """Of what has ended nothing is left."""
        self.poll.unregister(pidfd)
        os.waitpid(self.forked.pop(pidfd), 0)
        os.close(pidfd)

    def disconnect(self, fd: int) -> None:
        """Forget a line at whose other end nobody is any more."""
        if fd in self.essential_fds:
            self.shut_down()
        self.poll.unregister(fd)
        self.connections.pop(fd).close()

    def handle_request(self, line: socket.socket) -> bool:
        """Do what is asked for; False if nobody asks any more.

        A request without a call hands over another line, for requests of another process.
        """
        data, fds = b"", list[int]()
        with contextlib.suppress(ConnectionError):
            data, fds, *_ = socket.recv_fds(line, 65536, MAX_FDS)
        if not data:
            return False
        told = json.loads(data)
        if told["call"]:
            self.fork(line, told, fds)
        else:
            [fd] = fds
            self.connections[fd] = socket.socket(fileno=fd)
            self.poll.register(fd, select.POLLIN)
        return True

    def fork(self, line: socket.socket, told: dict[str, Any], fds: list[int]) -> None:
        """Fork; the answer is the new process's pid and pidfd, or why there is none."""
        try:
            pid, pidfds = self.start_process(told, fds)
            said = str(pid)
        except OSError as error:
            said, pidfds = str(error.strerror), []
        with contextlib.suppress(ConnectionError):  # who asked has ended, and so will what is new
            socket.send_fds(line, [said.encode()], pidfds)
        for fd in fds:
            os.close(fd)

    def start_process(self, told: dict[str, Any], fds: list[int]) -> tuple[int, list[int]]:
        """A new process that does what it is told, and its pidfd. Raises OSError."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self.close_inherited()
            run_call(told, fds, parent)
        pidfd = os.pidfd_open(pid)
        self.forked[pidfd] = pid
        self.poll.register(pidfd, select.POLLIN)
        return pid, [pidfd]

    def close_inherited(self) -> None:
        """In what was forked: let go of everything that is the zygote's alone."""
        for each in self.connections.values():
            each.close()
        for fd in (self.grader_process, *self.forked):
            os.close(fd)

    def shut_down(self) -> NoReturn:
        """Take along what was forked, and count what it used."""
        for pid in self.forked.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self.forked.values():
            os.waitpid(pid, 0)
        os._exit(0)


def run_call(told: dict[str, Any], fds: list[int], parent: int) -> NoReturn:
    """In what was forked: call the function that is named, and end, with the parent at the latest.

    The kernel is told so before anything is imported, which takes a while.
    """
    try:
        kernel.die_with(parent)
        module, _, name = told["call"].partition(":")
        getattr(importlib.import_module(module), name)(parent, *fds, *told["arguments"])
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 0)
    except BaseException:
        traceback.print_exc()
        os._exit(EXIT_FAILED)
    os._exit(0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
