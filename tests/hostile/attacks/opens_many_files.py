"""Opens files and pipes until no more can be had, and keeps them."""

import functools
import os


@functools.cache
def attack():
    kept = []
    try:
        while len(kept) < 5000:
            kept.append(os.open("/dev/null", os.O_RDONLY))
            kept += os.pipe()
    except OSError:
        pass
    count = len(kept)
    for fd in kept:
        os.close(fd)
    return [f"{count} files"] if count > 1000 else []
