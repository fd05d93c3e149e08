"""Announces a body of 16 EiB, and one as large as the grader allows, and sends neither."""

import os
import struct
import time


def attack():
    for fd in sockets():
        os.write(fd, struct.pack("<IQ", 2, (64 << 20) - 1) + b"{}")
    time.sleep(3600)
