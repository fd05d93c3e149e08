"""Replaces its own program by a shell: no new process is needed."""

import os
import sys


def attack_once():
    for path in ("/bin/sh", "/usr/bin/env", sys.executable):
        with suppress(OSError):
            os.execv(path, ["sh", "-c", "echo ran >> @arena@/canary"])
    with suppress(OSError):
        fd = os.memfd_create("@token@")
        with open("/bin/true", "rb") as file:
            os.write(fd, file.read())
        os.execve(fd, ["true"], {})
    return []
