"""Locks all its memory, to starve the machine of pages."""

import ctypes


def attack_once():
    return [] if ctypes.CDLL(None).mlockall(3) else ["locked"]
