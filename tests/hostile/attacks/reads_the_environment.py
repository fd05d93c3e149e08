"""Looks for the grader's secret in every environment and command line it can find."""

import ctypes
import os


def texts():
    yield "\n".join(f"{k}={v}" for k, v in os.environ.items()).encode()
    for pid in ("self", os.getpid(), os.getppid(), 1, "@server@", "@grader@"):
        for name in ("environ", "cmdline", "stack", "auxv"):
            with suppress(OSError):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    yield file.read()
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    at = 0
    while environ and environ[at]:
        yield environ[at]
        at += 1


def attack_once():
    found = b"".join(texts())
    return [
        text
        for text in ("HEADCHECK_SECRET", "PYTEST", "PYTHONPATH", "--marker")
        if text.encode() in found
    ]
