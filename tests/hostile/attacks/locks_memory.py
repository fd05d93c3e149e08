"""Locks all its memory, to starve the machine of pages."""

import ctypes
import functools


@functools.cache
def attack():
    return [] if ctypes.CDLL(None).mlockall(3) else ["locked"]
