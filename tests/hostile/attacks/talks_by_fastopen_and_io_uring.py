"""Opens connections by other calls than connect: TCP fast open, io_uring."""

import ctypes
import socket

libc = ctypes.CDLL(None, use_errno=True)


def attack_once():
    won = []
    with suppress(OSError):
        with socket.socket() as sender:
            sender.sendto(b"@token@", 0x20000000, ("127.0.0.1", int("@tcp@")))
            won.append("fast open")
    parameters = ctypes.create_string_buffer(120)
    if libc.syscall(425, 4, parameters) >= 0:
        won.append("io_uring")
    return won
