"""Opens files and pipes until no more can be had, and keeps them."""

import os


def attack_once():
    kept = []
    with suppress(OSError):
        while len(kept) < 5000:
            kept.append(os.open("/dev/null", os.O_RDONLY))
            kept += os.pipe()
    count = len(kept)
    for fd in kept:
        os.close(fd)
    return [f"{count} files"] if count > 1000 else []
