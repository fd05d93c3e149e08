"""Closes every file descriptor, the grader's socket among them, and goes on."""

import os


def attack():
    os.closerange(0, 4096)
