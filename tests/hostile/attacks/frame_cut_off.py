"""Sends half a frame and shuts its side of the socket."""

import os
import struct
import time


def attack():
    for fd in sockets():
        os.write(fd, struct.pack("<IQ", 400, 0) + b"{")
        os.close(fd)
    time.sleep(3600)
