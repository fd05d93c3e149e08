"""Registers exit handlers that end the process with 0, and then raises SystemExit."""

import atexit
import os
import sys


def attack():
    atexit.register(os._exit, 0)
    sys.exit(3)
