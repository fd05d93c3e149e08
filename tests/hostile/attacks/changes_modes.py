"""Changes modes, owners, times and attributes of the results: no writing, so Landlock lets it."""

import ctypes
import functools
import os

libc = ctypes.CDLL(None)


@functools.cache
def attack():
    won = []
    for change in (
        lambda: os.chmod("@arena@/canary", 0o777),
        lambda: os.chown("@arena@/canary", os.getuid(), os.getgid()),
        lambda: os.utime("@arena@/canary", (0, 0)),
        lambda: os.setxattr("@arena@/canary", "user.won", b"1"),
    ):
        try:
            change()
            won.append("changed")
        except OSError:
            pass
    if libc.syscall(452, -100, b"@arena@/canary", 0o777, 0) == 0:
        won.append("fchmodat2")
    return won
