"""Changes modes, owners, times and attributes of the results: no writing, so Landlock lets it."""

import ctypes
import os

libc = ctypes.CDLL(None)


def attack_once():
    won = []
    for change in (
        lambda: os.chmod("@arena@/canary", 0o777),
        lambda: os.chown("@arena@/canary", os.getuid(), os.getgid()),
        lambda: os.utime("@arena@/canary", (0, 0)),
        lambda: os.setxattr("@arena@/canary", "user.won", b"1"),
    ):
        with suppress(OSError):
            change()
            won.append("changed")
    if libc.syscall(452, -100, b"@arena@/canary", 0o777, 0) == 0:
        won.append("fchmodat2")
    return won
