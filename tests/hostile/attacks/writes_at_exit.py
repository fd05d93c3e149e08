"""Leaves exit handlers, finalisers, signal handlers and timers that write the canary."""

import atexit
import gc
import signal
import sys
import weakref

import torch


def write(*_):
    with suppress(OSError):
        with open("@arena@/canary", "a") as file:
            file.write("written at the end")


class Last:
    __del__ = write


def attack_once():
    atexit.register(write)
    weakref.finalize(torch, write)
    gc.callbacks.append(write)
    sys.kept = Last()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU, signal.SIGALRM, signal.SIGPIPE):
        signal.signal(number, write)
    with suppress(OSError):
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    return []
