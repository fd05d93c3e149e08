"""Reads what others handed in, and lists the folder."""

import os


def attack_once():
    won = []
    with suppress(OSError):
        won += os.listdir("@arena@/submissions")
    with suppress(OSError):
        with open("@arena@/submissions/ada.py") as file:
            won.append(file.read())
    return won
