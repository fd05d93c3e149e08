"""The fork server: a process that has torch loaded, and forks a child for every submission.

Theory of operation
    Starting an interpreter with torch takes 1.5 s; forking one that has it takes milliseconds.
    This process prepares the jail (`grader/sandbox/jail`), imports and warms up everything a child
    will need, then waits on a control socket. A request carries limits and two file descriptors:
    the child's end of a socket pair, over which the examiner will speak with the child alone, and
    a pipe. On the pipe the child says `+` once it is confined, before the submission's first byte
    has reached it; then this server tells how it ended. The answer carries the child's pid as a
    pidfd, so that the examiner can end it and never hit another process.

    The server must have a single thread when it forks: a thread pool alive at that moment leaves
    the child waiting for threads that do not exist there. It holds no secret: whatever is in its
    memory and environment can be read by every submission. It ends when the examiner does: the
    control socket closes, and a pidfd of the examiner becomes readable; the kernel ends it in the
    time before it looks at either. Its children end with it in turn.

    Run as: python -m grader.sandbox.server FD EXAMINER [LAYER TO LEAVE OUT ...]
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
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from grader.sandbox.jail import cell, confine, kernel, owner, places, probe
from grader.sandbox.jail.confine import Jail
from grader.sandbox.jail.rung import Layer, Rung, rung_of
from grader.sandbox.limits import ONE_THREAD, Limits

UNCONFINED = 70


def main(control_fd: int, examiner: int, left_out: Collection[Layer]) -> None:
    """Confine itself, warm up, then serve until the examiner is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the examiner
    control = socket.socket(fileno=control_fd)
    needed = places.needed()
    try:
        owner.become_unprivileged(needed)
        watched = die_with(examiner)
        rung = rung_of(probe.problems(left_out, needed))
        control.send(json.dumps(asdict(rung)).encode())
        stage = None
        if Layer.NAMESPACES in rung.layers:
            stage = cell.set_up_stage(needed, places.hidden(needed))
    except (owner.NoOwner, cell.NoStage, OSError) as error:
        control.send(json.dumps({"error": str(error)}).encode())
        sys.exit(1)
    jail = warm(rung, stage)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, 0)  # it would end us with the thread that started us
    control.send(b"ready")
    serve(control, watched, jail)


def die_with(examiner: int) -> int:
    """End when the examiner does, also while starting; what becomes readable when it has ended."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    watched = os.pidfd_open(examiner)
    if os.getppid() != examiner:
        sys.exit(1)
    return watched


def warm(rung: Rung, stage: Path | None) -> Jail:
    """Do all that every child would do first, with one thread."""
    warm_up()
    refuse_threads()
    jail = confine.prepare([Layer(name) for name in rung.layers], stage)
    gc.collect()
    gc.freeze()  # children then copy fewer pages
    return jail


def warm_up() -> None:
    """Import what a submission is judged with, and have torch set itself up."""
    # torch imports dill where there is one, and dill asks for a folder that can be written into:
    # here is none, and every child gets its own.
    tempfile.tempdir = "/"
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    import grader.sandbox.worker.serve
    from grader.sandbox.worker import warming

    x = torch.randn(2, 6, 8, requires_grad=True)
    y = torch.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0]
    y = torch.nn.functional.scaled_dot_product_attention(y, y, y) @ torch.randn(8, 8)
    # The first gradient with a cotangent imports sympy: hundreds of milliseconds.
    torch.autograd.grad(y.softmax(-1), [x], torch.ones_like(y))
    # The first operation on the meta device imports half a second's worth of torch.
    scores = torch.ones(2, 2, device="meta").tril()
    weights = scores.masked_fill(scores == 0, -torch.inf).softmax(-1)
    torch.nn.functional.dropout(weights @ scores, 0.5)
    warming.warm_up()
    assert grader.sandbox.worker.serve.serve_host is not None


def refuse_threads() -> None:
    """Raises SystemExit when this process has more than one thread."""
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) > 1:
        raise SystemExit("the fork server has more than one thread; it cannot fork safely")


def serve(control: socket.socket, examiner: int, jail: Jail) -> None:
    """Fork a child for every request, and tell how each ended."""
    children: dict[int, tuple[int, int]] = {}  # pidfd -> (pid, status pipe)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(examiner, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd in children:
                poll.unregister(fd)
                report_end(fd, *children.pop(fd))
                continue
            if fd == examiner:
                end(children)
            data, fds, *_ = socket.recv_fds(control, 65536, 2)
            if not data:
                end(children)
            pidfd, pid = start(control, jail, Limits(**json.loads(data)), *fds)
            children[pidfd] = pid, fds[1]
            poll.register(pidfd, select.POLLIN)


def start(
    control: socket.socket, jail: Jail, limits: Limits, ipc: int, status: int
) -> tuple[int, int]:
    """Fork; the parent answers with the child's pidfd."""
    pid = jail.fork()
    if pid == 0:
        run_child(jail, limits, ipc, status)
    pidfd = os.pidfd_open(pid)
    socket.send_fds(control, [str(pid).encode()], [pidfd])
    os.close(ipc)
    return pidfd, pid


def report_end(pidfd: int, pid: int, status: int) -> None:
    """Write how a child ended on its pipe; the examiner may be gone by then."""
    _, code, usage = os.wait4(pid, 0)
    cpu = usage.ru_utime + usage.ru_stime
    told = {"signal": code & 0x7F, "cpu": cpu, "memory": usage.ru_maxrss}
    with contextlib.suppress(BrokenPipeError):
        os.write(status, json.dumps(told).encode())
    os.close(status)
    os.close(pidfd)


def end(children: dict[int, tuple[int, int]]) -> NoReturn:
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
        forget_rooms()
        os.write(confine.CONFINED, b"+")
        os.close(confine.CONFINED)
    except BaseException as error:
        os.write(confine.CONFINED, f"-{type(error).__name__}: {error}"[:1000].encode())
        os._exit(UNCONFINED)
    try:
        from grader.sandbox.worker.serve import serve_host

        serve_host(confine.SOCKET)
    except BaseException:
        os._exit(UNCONFINED)
    os._exit(0)


def clear_environment(jail: Jail) -> None:
    """Leave a path, a locale, one thread, and the folder that may be written into."""
    home = "/nonexistent" if jail.stage is None else str(cell.own_folder(jail.stage))
    os.environ.clear()
    os.environ.update({"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MPLBACKEND": "Agg"})
    os.environ.update({"HOME": home, "TMPDIR": home, **ONE_THREAD})
    tempfile.tempdir = home  # libraries ask for it when they are imported, and it may be nowhere


def forget_rooms() -> None:
    """Make the rooms that know the answers impossible to import: solutions are among them."""
    for room in places.ROOMS:
        sys.modules[room] = None  # type: ignore[assignment]  # how Python spells "not importable"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [Layer(name) for name in sys.argv[3:]])
