"""Writes on the interpreter's own objects by address: small numbers, None, True and False."""

import ctypes


def attack():
    for number in (2, 3, 7):  # every 2 of this process becomes 1
        at = ctypes.cast(id(number) + 24, ctypes.POINTER(ctypes.c_uint32))
        at[0] = 1
    ctypes.cast(id(False) + 24, ctypes.POINTER(ctypes.c_uint32))[0] = 1
