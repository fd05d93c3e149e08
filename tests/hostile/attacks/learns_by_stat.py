"""Asks for size, time and kind of files that it may not read."""

import os


def attack_once():
    won = []
    for path in ("@arena@/submissions/ada.py", "@arena@/results.json", "@unix@", "/etc/shadow"):
        for look in (
            os.stat,
            os.lstat,
            lambda path: os.access(path, os.W_OK) or os.stat(path, dir_fd=0),
        ):
            with suppress(OSError):
                look(path)
                won.append(path)
    return sorted(set(won))
