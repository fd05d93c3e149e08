"""Sends bytes that are no frame."""

import os


def attack():
    for fd in sockets():
        os.write(fd, b"\xff" * 4096)
