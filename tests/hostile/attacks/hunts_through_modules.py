"""Looks through the modules that the runner loaded for rooms that know the answers."""

import sys


def attack_once():
    won = []
    for name, module in list(sys.modules.items()):
        if module is not None and name.startswith(
            (
                "headcheck.reference",
                "headcheck.properties",
                "headcheck.exercises",
                "tests",
                "hypothesis",
            )
        ):
            won.append(name)
        for each in ("EXERCISE", "BY_SLUG", "expect", "PRECISIONS"):
            if module is not None and each in vars(module):
                won.append(f"{name}.{each}")
    return won
