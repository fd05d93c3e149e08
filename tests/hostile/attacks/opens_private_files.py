"""Reads and writes files that only the user who runs the grader may open."""


def attack_once():
    won = []
    for mode in ("r", "r+", "a"):
        with suppress(OSError):
            with open("@arena@/private", mode):
                won.append(mode)
    return won
