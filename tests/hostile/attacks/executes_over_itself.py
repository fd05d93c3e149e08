"""Replaces its own program by a shell: no new process is needed."""

import functools
import os
import sys


@functools.cache
def attack():
    for path in ("/bin/sh", "/usr/bin/env", sys.executable):
        try:
            os.execv(path, ["sh", "-c", "echo ran >> @arena@/canary"])
        except OSError:
            pass
    try:
        fd = os.memfd_create("@token@")
        with open("/bin/true", "rb") as file:
            os.write(fd, file.read())
        os.execve(fd, ["true"], {})
    except OSError:
        pass
    return []
