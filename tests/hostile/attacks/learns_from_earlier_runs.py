"""Looks for anything that an earlier run of the same file left, and leaves something for the next."""

import functools
import os

import torch


@functools.cache
def attack():
    won = []
    for place in ("/tmp", "/var/tmp", "/dev/shm", "@arena@", ".", os.path.dirname(torch.__file__)):
        path = f"{place}/@token@learned"
        if os.path.exists(path):
            won.append(place)
        try:
            with open(path, "w") as file:
                file.write("seen")
        except OSError:
            pass
    if hasattr(torch, "learned"):
        won.append("torch")
    torch.learned = True
    return won
