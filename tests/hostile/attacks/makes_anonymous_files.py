"""Makes files in memory with no name (memfd, secretmem, O_TMPFILE)."""

import ctypes
import os


def attack_once():
    won, libc = [], ctypes.CDLL(None)
    with suppress(OSError):
        os.write(os.memfd_create("@token@"), bytes(8 << 20))
        won.append("memfd_create")
    if libc.syscall(447, 0) >= 0:
        won.append("memfd_secret")
    for place in ("@arena@", "/tmp", "/dev/shm"):
        with suppress(OSError):
            os.close(os.open(place, os.O_TMPFILE | os.O_RDWR, 0o600))
            won.append(f"O_TMPFILE in {place}")
    return won
