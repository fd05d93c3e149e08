"""Looks for anything that an earlier run of the same file left, and leaves something for the next."""

import os

import torch


def attack_once():
    won = []
    for place in ("/tmp", "/var/tmp", "/dev/shm", "@arena@", ".", os.path.dirname(torch.__file__)):
        path = f"{place}/@token@learned"
        if os.path.exists(path):
            won.append(place)
        with suppress(OSError):
            with open(path, "w") as file:
                file.write("seen")
    if hasattr(torch, "learned"):
        won.append("torch")
    torch.learned = True
    return won
