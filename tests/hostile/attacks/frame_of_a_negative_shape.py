"""Describes a tensor of shape (-1, -8)."""

import os
import struct


def attack():
    for fd in sockets():
        text = b'{"id": 6, "op": "ok", "tensors": [["0", "uint8", [-1, -8]]]}'
        os.write(fd, struct.pack("<IQ", len(text), 8) + text + bytes(8))
