"""Puts objects of its own in place of the streams that the runner looks at."""

import sys


class Stream:
    written = "none"

    def __getattr__(self, name):
        return lambda *given: self

    def __int__(self):
        return 0


def attack():
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = Stream()
    print("into the void")
