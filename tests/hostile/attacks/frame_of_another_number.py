"""Answers a question that was not asked."""

import os
import struct


def attack():
    for fd in sockets():
        text = b'{"id": 99, "op": "ok", "meta": {"handle": 1}}'
        os.write(fd, struct.pack("<IQ", len(text), 0) + text)
