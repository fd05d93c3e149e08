"""Leaves exit handlers, finalisers, signal handlers and timers that write the canary."""

import atexit
import functools
import gc
import signal
import sys
import weakref

import torch


def write(*_):
    try:
        with open("@arena@/canary", "a") as file:
            file.write("written at the end")
    except OSError:
        pass


class Last:
    __del__ = write


@functools.cache
def attack():
    atexit.register(write)
    weakref.finalize(torch, write)
    gc.callbacks.append(write)
    sys.kept = Last()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU, signal.SIGALRM, signal.SIGPIPE):
        signal.signal(number, write)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    except OSError:
        pass
    return []
