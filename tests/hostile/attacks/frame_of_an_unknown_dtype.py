"""Describes a tensor of dtype object."""

import os
import struct


def attack():
    for fd in sockets():
        text = b'{"id": 6, "op": "ok", "tensors": [["0", "object", [1]]]}'
        os.write(fd, struct.pack("<IQ", len(text), 8) + text + bytes(8))
