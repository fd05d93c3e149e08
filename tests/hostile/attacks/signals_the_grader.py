"""Sends signals to the grader and to its server, by every call that can."""

import ctypes
import os
import platform
import signal

libc = ctypes.CDLL(None, use_errno=True)
TGKILL = 234 if platform.machine() == "x86_64" else 131


def attack_once():
    won = []
    for number in (0, signal.SIGUSR1, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        for pid in PIDS:
            for send in (
                lambda: os.kill(pid, number),
                lambda: os.killpg(os.getpgid(pid), number),
                lambda: signal.pidfd_send_signal(os.pidfd_open(pid), number),
            ):
                with suppress(OSError):
                    send()
                    won.append((pid, int(number)))
            if libc.syscall(TGKILL, pid, pid, number) == 0:
                won.append((pid, "tgkill"))
    return won
