"""Leaves a key in the kernel's keyring, which outlives it and is shared by its user."""

import ctypes
import platform


def attack_once():
    if platform.machine() != "x86_64":
        return []
    libc, won = ctypes.CDLL(None, use_errno=True), []
    key = libc.syscall(248, b"user", b"@token@", b"secret", 6, -4)
    if key >= 0:
        won.append("add_key")
        libc.syscall(250, 3, key)  # revoked again
    if libc.syscall(250, 1, 0) >= 0:
        won.append("keyctl")
    return won
