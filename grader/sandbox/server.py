"""The fork server: a process that has torch loaded, and forks a child for every submission.

Theory of operation
    Starting an interpreter with torch takes 1.5 s; forking one that has it takes milliseconds.
    This process imports and warms up everything a child will need, then waits on a control
    socket. A request carries limits and two file descriptors: the child's end of a socket pair,
    over which the examiner will speak with the child alone, and a pipe on which this server tells
    how the child ended. The answer carries the child's pid as a pidfd, so that the examiner can
    kill it and never hit another process.

    The server must have a single thread when it forks: a thread pool alive at that moment leaves
    the child waiting for threads that do not exist there. It holds no secret: whatever is in its
    memory and environment can be read by every submission. It ends when the examiner does, because
    the control socket then closes.

    Run as: python -m grader.sandbox.server FD
"""

import contextlib
import gc
import json
import os
import random
import resource
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
CHILD_FD = 3
NO_MORE_FILES = 64
MAX_FILE = 16 << 20


def main(control_fd: int) -> None:
    """Warm up, then serve until the control socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the examiner
    warm_up()
    refuse_threads()
    gc.collect()
    gc.freeze()  # children then copy fewer pages
    control = socket.socket(fileno=control_fd)
    control.send(b"ready")
    serve(control)


def warm_up() -> None:
    """Do once what every child would do first, with one thread."""
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    import grader.sandbox.worker.host

    x = torch.randn(2, 6, 8, requires_grad=True)
    y = torch.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0]
    y = torch.nn.functional.scaled_dot_product_attention(y, y, y) @ torch.randn(8, 8)
    # The first gradient with a cotangent imports sympy: hundreds of milliseconds.
    torch.autograd.grad(y.softmax(-1), [x], torch.ones_like(y))
    assert grader.sandbox.worker.host.Host is not None


def refuse_threads() -> None:
    """Raises SystemExit when this process has more than one thread."""
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) > 1:
        raise SystemExit("the fork server has more than one thread; it cannot fork safely")


def serve(control: socket.socket) -> None:
    """Fork a child for every request, and tell how each ended."""
    children: dict[int, tuple[int, int]] = {}  # pidfd -> (pid, status pipe)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd in children:
                poll.unregister(fd)
                report_end(fd, *children.pop(fd))
                continue
            data, fds, *_ = socket.recv_fds(control, 65536, 2)
            if not data:
                end(children)
            pidfd, pid = start(control, json.loads(data), *fds)
            children[pidfd] = pid, fds[1]
            poll.register(pidfd, select.POLLIN)


def start(control: socket.socket, limits: dict[str, Any], ipc: int, status: int) -> tuple[int, int]:
    """Fork; the parent answers with the child's pidfd."""
    pid = os.fork()
    if pid == 0:
        run_child(limits, ipc)
    pidfd = os.pidfd_open(pid)
    socket.send_fds(control, [str(pid).encode()], [pidfd])
    os.close(ipc)
    return pidfd, pid


def report_end(pidfd: int, pid: int, status: int) -> None:
    """Write how a child ended on its pipe; the examiner may be gone by then."""
    _, code, usage = os.wait4(pid, 0)
    told = {"status": code, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss}
    with contextlib.suppress(BrokenPipeError):
        os.write(status, json.dumps(told).encode())
    os.close(status)
    os.close(pidfd)


def end(children: dict[int, tuple[int, int]]) -> NoReturn:
    """The examiner is gone: take the children along."""
    for pid, _ in children.values():
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def run_child(limits: dict[str, Any], ipc: int) -> NoReturn:
    """In the child: keep one socket, take the limits, and serve the submission's host."""
    try:
        confine(limits, ipc)
        forget_rooms()
        from grader.sandbox.worker.serve import serve_host

        serve_host(CHILD_FD)
    except BaseException:
        os._exit(70)
    os._exit(0)


def forget_rooms() -> None:
    """Make the rooms that know the answers impossible to import: solutions are among them."""
    for room in ("reference", "properties", "exercises", "tests"):
        sys.modules[room] = None  # type: ignore[assignment]  # how Python spells "not importable"


def confine(limits: dict[str, Any], ipc: int) -> None:
    """Close every descriptor but the socket, empty the environment, set the resource limits."""
    nothing = os.open(os.devnull, os.O_RDWR)
    kept = os.dup(ipc), os.dup(nothing)
    for fd in (0, 1, 2):
        os.dup2(kept[1], fd)
    os.dup2(kept[0], CHILD_FD)
    os.closerange(CHILD_FD + 1, os.sysconf("SC_OPEN_MAX") if os.name == "posix" else 1024)
    os.environ.clear()
    os.environ.update({"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MPLBACKEND": "Agg"})
    os.environ.update(dict.fromkeys(THREADS, "1"))
    given = limits["memory"]
    space = resource.RLIM_INFINITY if given is None else mapped_memory() + given
    for what, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, limits["cpu_s"], limits["cpu_s"] + 2),
        (resource.RLIMIT_AS, space, space),
        (resource.RLIMIT_NOFILE, NO_MORE_FILES, NO_MORE_FILES),
        (resource.RLIMIT_FSIZE, MAX_FILE, MAX_FILE),
    ):
        resource.setrlimit(what, (soft, hard))
    reseed()


def mapped_memory() -> int:
    """The address space that this process has already, in bytes."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * resource.getpagesize()
    except OSError:
        return 8 << 30


def reseed() -> None:
    """Children share the server's random state: give each its own."""
    import torch

    fresh = int.from_bytes(os.urandom(7), "little")
    random.seed(fresh)
    torch.manual_seed(fresh)


if __name__ == "__main__":
    main(int(sys.argv[1]))
