"""Prints 40 MiB, past Python and through it."""

import os
import sys


def attack_once():
    for _ in range(8):
        print("p" * (1 << 20))
        print("e" * (1 << 20), file=sys.stderr)
        for write in (
            lambda: sys.__stdout__.write("o" * (1 << 20)),
            lambda: os.write(1, bytes(1 << 20)),
        ):
            with suppress(OSError, AttributeError, ValueError):
                write()
        with suppress(OSError):
            os.write(2, bytes(1 << 20))
    return []
