"""Loops in a call, and catches whatever is raised to end the loop."""


def attack():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
