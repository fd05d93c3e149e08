"""Sends a header that is no JSON."""

import os
import struct


def attack():
    for fd in sockets():
        os.write(fd, struct.pack("<IQ", 5, 0) + b"{nope")
