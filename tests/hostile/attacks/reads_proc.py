"""Reads what /proc tells about other processes and about the machine."""

import os


def attack_once():
    won = []
    with suppress(OSError):
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in (os.getpid(), os.getppid(), 1):
                with suppress(OSError):
                    with open(f"/proc/{entry}/cmdline", "rb") as file:
                        if text := file.read():
                            won.append((entry, text[:40]))
    for name in (
        "/proc/@grader@/status",
        "/proc/@grader@/fd",
        "/proc/@server@/maps",
        "/proc/net/tcp",
        "/proc/kcore",
    ):
        with suppress(OSError):
            os.listdir(name) if name.endswith("fd") else open(name, "rb").read(1)
            won.append(name)
    return won[:8]
