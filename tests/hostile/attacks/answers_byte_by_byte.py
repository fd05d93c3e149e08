"""Sends a frame a byte at a time, so that a deadline per byte would never pass."""

import os
import struct
import time


def attack():
    os.write(3, struct.pack("<IQ", 100, 0))
    while True:
        time.sleep(0.05)
        os.write(3, b" ")
