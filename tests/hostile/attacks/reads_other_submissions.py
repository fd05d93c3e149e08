"""Reads what others handed in, and lists the folder."""

import functools
import os


@functools.cache
def attack():
    won = []
    try:
        won += os.listdir("@arena@/submissions")
    except OSError:
        pass
    try:
        with open("@arena@/submissions/ada.py") as file:
            won.append(file.read())
    except OSError:
        pass
    return won
