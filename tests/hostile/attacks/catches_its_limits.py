"""Catches the signal of its processor limit, asks for more time, and goes on."""

import resource
import signal


def more(*_):
    resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))


def attack():
    signal.signal(signal.SIGXCPU, more)
    while True:
        pass
