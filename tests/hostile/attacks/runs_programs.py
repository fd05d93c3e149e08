"""Runs programs: system, exec, spawn, subprocess, multiprocessing."""

import functools
import multiprocessing
import os
import subprocess

COMMAND = "echo ran >> @arena@/canary"


@functools.cache
def attack():
    won = []
    for run in (
        lambda: os.system(COMMAND) == 0,
        lambda: subprocess.run(["/bin/sh", "-c", COMMAND], timeout=5).returncode == 0,
        lambda: os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", COMMAND], {}), 0)[1] == 0,
        lambda: os.popen(COMMAND).close() is None,
        lambda: multiprocessing.get_context("fork").Process(target=print).start() is None,
    ):
        try:
            if run():
                won.append("ran")
        except Exception:
            pass
    return won
