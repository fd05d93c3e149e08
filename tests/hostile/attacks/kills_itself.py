"""Sends itself SIGKILL."""

import signal


def attack():
    signal.raise_signal(signal.SIGKILL)
