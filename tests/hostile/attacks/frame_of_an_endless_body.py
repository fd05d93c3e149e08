"""Announces a body beyond every limit."""

import os
import struct


def attack():
    for fd in sockets():
        os.write(fd, struct.pack("<IQ", 2, 1 << 63) + b"{}")
