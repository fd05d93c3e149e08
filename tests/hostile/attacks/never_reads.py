"""Replaces the function that reads requests, and never reads one again."""

import os
import time

from headcheck.grader.sandbox import wire


def attack():
    def wait(*given):
        time.sleep(3600)

    os.readv = os.read = wire.read = wait
