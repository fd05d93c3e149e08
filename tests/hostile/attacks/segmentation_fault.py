"""Reads address 0."""

import ctypes


def attack():
    ctypes.string_at(0)
