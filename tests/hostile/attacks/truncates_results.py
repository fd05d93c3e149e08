"""Truncates the results without opening them for writing."""

import os


def attack_once():
    won = []
    for name in ("results.json", "canary"):
        with suppress(OSError):
            os.truncate(f"@arena@/{name}", 0)
            won.append(name)
        with suppress(OSError):
            os.close(os.open(f"@arena@/{name}", os.O_RDONLY | os.O_TRUNC))
            won.append(name)
    return won
