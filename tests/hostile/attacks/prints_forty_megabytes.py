"""Prints 40 MiB, past Python and through it."""

import functools
import os
import sys


@functools.cache
def attack():
    for _ in range(8):
        print("p" * (1 << 20))
        print("e" * (1 << 20), file=sys.stderr)
        for write in (
            lambda: sys.__stdout__.write("o" * (1 << 20)),
            lambda: os.write(1, bytes(1 << 20)),
        ):
            try:
                write()
            except (OSError, AttributeError, ValueError):
                pass
        try:
            os.write(2, bytes(1 << 20))
        except OSError:
            pass
    return []
