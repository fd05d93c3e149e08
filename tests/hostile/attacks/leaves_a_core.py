"""Asks for core dumps, and crashes in a folder that all may write."""

import os
import resource


def attack():
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))
        os.chdir("@arena@")
    os.abort()
