"""Reads what /proc tells about other processes and about the machine."""

import functools
import os


@functools.cache
def attack():
    won = []
    try:
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in (os.getpid(), os.getppid(), 1):
                try:
                    with open(f"/proc/{entry}/cmdline", "rb") as file:
                        if text := file.read():
                            won.append((entry, text[:40]))
                except OSError:
                    pass
    except OSError:
        pass
    for name in (
        "/proc/@grader@/status",
        "/proc/@grader@/fd",
        "/proc/@server@/maps",
        "/proc/net/tcp",
        "/proc/kcore",
    ):
        try:
            os.listdir(name) if name.endswith("fd") else open(name, "rb").read(1)
            won.append(name)
        except OSError:
            pass
    return won[:8]
