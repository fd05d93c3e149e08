"""Reads and writes files that only the user who runs the grader may open."""

import functools


@functools.cache
def attack():
    won = []
    for mode in ("r", "r+", "a"):
        try:
            with open("@arena@/private", mode):
                won.append(mode)
        except OSError:
            pass
    return won
