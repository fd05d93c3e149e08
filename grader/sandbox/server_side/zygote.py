"""The zygote: a process that has torch loaded and warm, and does nothing but fork.

Theory of operation
    Importing and initialising torch takes one to two seconds of processor time, and every process
    that grades needs torch: the grader process, each worker, and each one's fork server. So torch
    is imported once, in a process that starts with an empty environment and imports nothing from
    the packages with answers. A request to the zygote holds only the name of the function to run,
    its arguments and file descriptors, so no secret ever reaches the zygote.

    There are two ways to get a zygote. A command starts as such a process itself, imports torch,
    forks the zygote, and only then reads what to grade (`fork_zygote`, `grader/ui/program.py`). A
    process that already holds secrets or has threads starts the zygote as a new interpreter
    (`main`).

    Like a fork server, the zygote must have a single thread when it forks. It ends with the process
    that started it, and all forked processes end with the zygote. The kernel ensures this, even for
    stopped processes: it kills the zygote together with the thread that started it, and forked
    processes together with the zygote, their parent. A thread other than the main one may end
    before its process, so a zygote that such a thread started gives up this protection once it is
    warm. It then relies on the control socket, which closes, and on a pidfd of the process, which
    becomes readable.

    Run as: python -m headcheck.grader.sandbox.server_side.zygote FD GRADER_PID THREAD
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

from headcheck.grader.sandbox.server_side import skipped_imports
from headcheck.grader.sandbox.server_side.jail import kernel

MAX_FDS = 3
"""the most file descriptors in a request"""
EXIT_FAILED = 70
CONTROL_FD = 3
"""the descriptor of a forked zygote's socket, after the standard streams"""


def main(control_fd: int, grader_process: int, thread: int) -> None:
    """Run as the zygote of the process that started this interpreter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grader process
    gc.disable()  # there is little garbage, and much to look through; `serve` enables it again
    kernel.die_with(grader_process)
    control = socket.socket(fileno=control_fd)
    watched = os.pidfd_open(grader_process)
    load_torch()
    serve(control, watched, ends_with_thread=thread == grader_process)


def fork_zygote() -> tuple[int, socket.socket]:
    """Import torch and fork a zygote; return its pid, and the socket on which it takes requests.

    The zygote and the processes that it forks can read whatever is now in this process's memory, so
    the memory must contain no secret. The zygote keeps standard output and standard error, and no
    other file. Raises SystemExit if this process has threads.
    """
    load_torch()
    refuse_threads()
    gc.freeze()  # both processes then copy fewer pages
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    grader_process = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grader process
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _be_forked_zygote(theirs.detach(), grader_process)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    theirs.close()
    return pid, control


def _be_forked_zygote(control_fd: int, grader_process: int) -> NoReturn:
    try:
        kernel.die_with(grader_process)
        os.chdir("/")
        with open(os.devnull) as nothing:  # noqa: PTH123 - no path, but a device
            os.dup2(nothing.fileno(), 0)
        os.dup2(control_fd, CONTROL_FD)
        kernel.close_from(CONTROL_FD + 1)
        serve(socket.socket(fileno=CONTROL_FD), os.pidfd_open(grader_process))
    except SystemExit as refusal:
        os.write(sys.stderr.fileno(), f"{refusal}\n".encode())
    except BaseException:
        traceback.print_exc()
    os._exit(EXIT_FAILED)


def serve(
    control: socket.socket, grader_process: int, *, ends_with_thread: bool = True
) -> NoReturn:
    """Warm up, then serve until the grader process has ended."""
    warm_up()
    refuse_threads()
    gc.freeze()  # forked processes then copy fewer pages
    gc.enable()
    if not ends_with_thread:  # the thread may end at any time; this process must not
        kernel.prctl(kernel.PR_SET_PDEATHSIG, 0)
    ForkService(control, grader_process).serve()


def load_torch() -> None:
    """Import torch without modules that only its compiler needs, and limit it to one thread."""
    # torch imports dill if it is installed, and dill asks for a writable folder. Any value will do:
    # nothing is written here, and every child gets a folder of its own.
    tempfile.tempdir = "/"
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    skipped_imports.bypass_dynamo()
    skipped_imports.bypass_sympy()


def warm_up() -> None:
    """Import everything that workers need, and have torch initialise itself."""
    import torch

    import headcheck.grader.sandbox.server_side.server
    import headcheck.grader.sandbox.worker.serve
    from headcheck.grader.sandbox.server_side import warmup

    x = torch.randn(2, 6, 8, requires_grad=True)
    y = torch.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0]
    y = torch.nn.functional.scaled_dot_product_attention(y, y, y) @ torch.randn(8, 8)
    torch.autograd.grad(y.softmax(-1), [x], torch.ones_like(y))
    warmup.warm_up()
    assert headcheck.grader.sandbox.worker.serve.serve_requests is not None
    assert headcheck.grader.sandbox.server_side.server.begin is not None


def refuse_threads() -> None:
    """Raises SystemExit when this process has more than one thread."""
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) > 1:
        raise SystemExit("the zygote has more than one thread; it cannot fork safely")


class ForkService:
    """Forks a process for every request on its connections, and reaps the ended ones."""

    def __init__(self, control: socket.socket, grader_process: int) -> None:
        self.grader_process = grader_process
        self.essential_fds = (grader_process, control.fileno())
        """the zygote shuts down when one of these is closed"""
        self.connections = {control.fileno(): control}
        self.forked: dict[int, int] = {}  # pidfd -> pid
        self.poll = select.poll()
        for fd in self.essential_fds:
            self.poll.register(fd, select.POLLIN)

    def serve(self) -> NoReturn:
        """Serve until the grader process has ended."""
        while True:
            for fd, _ in self.poll.poll():
                if fd in self.forked:
                    self.reap(fd)
                elif fd not in self.connections or not self.handle_request(self.connections[fd]):
                    self.disconnect(fd)

    def reap(self, pidfd: int) -> None:
        """Wait for a process that has ended, and forget it."""
        self.poll.unregister(pidfd)
        os.waitpid(self.forked.pop(pidfd), 0)
        os.close(pidfd)

    def disconnect(self, fd: int) -> None:
        """Forget a closed connection, and shut down if it was an essential one."""
        if fd in self.essential_fds:
            self.shut_down()
        self.poll.unregister(fd)
        self.connections.pop(fd).close()

    def handle_request(self, connection: socket.socket) -> bool:
        """Carry out a request; return False if the connection is closed.

        A request without a call hands over a new connection, on which another process sends
        requests.
        """
        data, fds = b"", list[int]()
        with contextlib.suppress(ConnectionError):
            data, fds, *_ = socket.recv_fds(connection, 65536, MAX_FDS)
        if not data:
            return False
        request = json.loads(data)
        if request["call"]:
            self.fork(connection, request, fds)
        else:
            [fd] = fds
            self.connections[fd] = socket.socket(fileno=fd)
            self.poll.register(fd, select.POLLIN)
        return True

    def fork(self, connection: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
        """Fork a process, and reply with its pid and pidfd, or with why there is none."""
        try:
            pid, pidfds = self.start_process(request, fds)
            reply = str(pid)
        except OSError as error:
            reply, pidfds = str(error.strerror), []
        with contextlib.suppress(ConnectionError):  # the client has ended; its process ends, too
            socket.send_fds(connection, [reply.encode()], pidfds)
        for fd in fds:
            os.close(fd)

    def start_process(self, request: dict[str, Any], fds: list[int]) -> tuple[int, list[int]]:
        """Start a process that runs the call; return its pid and pidfd. Raises OSError."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self.close_inherited()
            run_call(request, fds, parent)
        pidfd = os.pidfd_open(pid)
        self.forked[pidfd] = pid
        self.poll.register(pidfd, select.POLLIN)
        return pid, [pidfd]

    def close_inherited(self) -> None:
        """In a forked process, close the zygote's own file descriptors."""
        for connection in self.connections.values():
            connection.close()
        for fd in (self.grader_process, *self.forked):
            os.close(fd)

    def shut_down(self) -> NoReturn:
        """Kill and reap all forked processes, and exit."""
        for pid in self.forked.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self.forked.values():
            os.waitpid(pid, 0)
        os._exit(0)


def run_call(request: dict[str, Any], fds: list[int], parent: int) -> NoReturn:
    """In a forked process, call the named function and exit.

    The process is tied to its parent first, since the import takes a while.
    """
    try:
        kernel.die_with(parent)
        module, _, name = request["call"].partition(":")
        getattr(importlib.import_module(module), name)(parent, *fds, *request["arguments"])
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 0)
    except BaseException:
        traceback.print_exc()
        os._exit(EXIT_FAILED)
    os._exit(0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
