"""Sends itself SIGSTOP: a process that neither runs nor ends."""

import signal


def attack():
    signal.raise_signal(signal.SIGSTOP)
