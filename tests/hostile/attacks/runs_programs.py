"""Runs programs: system, exec, spawn, subprocess, multiprocessing."""

import multiprocessing
import os
import subprocess

COMMAND = "echo ran >> @arena@/canary"


def attack_once():
    won = []
    for run in (
        lambda: os.system(COMMAND) == 0,
        lambda: subprocess.run(["/bin/sh", "-c", COMMAND], timeout=5).returncode == 0,
        lambda: os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", COMMAND], {}), 0)[1] == 0,
        lambda: os.popen(COMMAND).close() is None,
        lambda: multiprocessing.get_context("fork").Process(target=print).start() is None,
    ):
        with suppress(Exception):
            if run():
                won.append("ran")
    return won
