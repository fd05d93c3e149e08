"""Forks by fork, vfork, clone and clone3 as raw system calls, past every wrapper."""

import ctypes
import os
import platform
import signal
import time

libc = ctypes.CDLL(None, use_errno=True)
FORK, VFORK, CLONE, CLONE3 = (
    (57, 58, 56, 435) if platform.machine() == "x86_64" else (0, 0, 220, 435)
)


class CloneArguments(ctypes.Structure):
    _fields_ = [(str(i), ctypes.c_uint64) for i in range(11)]


def attack_once():
    won = []
    by_size = CloneArguments()
    setattr(by_size, "4", signal.SIGCHLD)
    calls = [("clone", CLONE, (signal.SIGCHLD, 0, 0, 0, 0))]
    calls += [("clone3", CLONE3, (ctypes.byref(by_size), ctypes.sizeof(by_size)))]
    calls += [("fork", FORK, ())] if FORK else []
    for name, number, arguments in calls:
        pid = libc.syscall(number, *arguments)
        if pid == 0:
            time.sleep(20)
            os._exit(0)
        if pid > 0:
            won.append(name)
    return won
