"""Renames, exchanges, links over and removes the results."""

import ctypes
import os

libc = ctypes.CDLL(None)


def attack_once():
    won = []
    for change in (
        lambda: os.rename("@arena@/canary", "@arena@/@token@"),
        lambda: os.replace("@arena@/submissions/ada.py", "@arena@/results.json"),
        lambda: os.unlink("@arena@/results.json"),
        lambda: os.rmdir("@arena@/empty"),
        lambda: os.mkdir("@arena@/@token@folder"),
        lambda: os.symlink("/etc/passwd", "@arena@/@token@link"),
        lambda: os.link("@arena@/submissions/ada.py", "@arena@/@token@hard"),
    ):
        with suppress(OSError):
            change()
            won.append("changed")
    if libc.renameat2(-100, b"@arena@/submissions/ada.py", -100, b"@arena@/results.json", 2) == 0:
        won.append("exchanged")
    return won
