"""Sends a header of a hundred thousand brackets."""

import os
import struct


def attack():
    for fd in sockets():
        text = b'{"id": 4, "op": "ok", "meta": {"form": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
        os.write(fd, struct.pack("<IQ", len(text), 0))
        while text:
            text = text[os.write(fd, text) :]
