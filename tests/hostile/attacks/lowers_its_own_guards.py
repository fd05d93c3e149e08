"""Adds rules of its own to Landlock and seccomp, and asks to be told of its own calls."""

import ctypes
import platform
import struct


def attack_once():
    libc, won = ctypes.CDLL(None, use_errno=True), []
    listener = 1 << 3  # SECCOMP_FILTER_FLAG_NEW_LISTENER
    allow = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
    filters = ctypes.create_string_buffer(allow)
    program = struct.pack("<HxxxxxxQ", 1, ctypes.addressof(filters))
    if libc.syscall(317 if platform.machine() == "x86_64" else 277, 1, listener, program) >= 0:
        won.append("a listener")
    if libc.prctl(22, 0, 0, 0, 0) == 0 or libc.prctl(38, 0, 0, 0, 0) == 0:
        won.append("no filter")
    return won
