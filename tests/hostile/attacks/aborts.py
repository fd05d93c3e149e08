"""Calls abort()."""

import os


def attack():
    os.abort()
