"""Truncates the results without opening them for writing."""

import functools
import os


@functools.cache
def attack():
    won = []
    for name in ("results.json", "canary"):
        try:
            os.truncate(f"@arena@/{name}", 0)
            won.append(name)
        except OSError:
            pass
        try:
            os.close(os.open(f"@arena@/{name}", os.O_RDONLY | os.O_TRUNC))
            won.append(name)
        except OSError:
            pass
    return won
