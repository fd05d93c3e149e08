"""Sends bytes that belong to no tensor."""

import os
import struct


def attack():
    for fd in sockets():
        text = b'{"id": 6, "op": "ok", "tensors": []}'
        os.write(fd, struct.pack("<IQ", len(text), 8) + text + bytes(8))
