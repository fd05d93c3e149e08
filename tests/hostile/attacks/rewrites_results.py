"""Writes, appends to and truncates the results, in a folder that all may write."""

import functools


@functools.cache
def attack():
    won = []
    for mode in ("w", "a", "r+", "x"):
        for name in ("results.json", "canary", "@token@"):
            try:
                with open(f"@arena@/{name}", mode) as file:
                    file.write("20 of 20 points")
                won.append((mode, name))
            except OSError:
                pass
    return won
