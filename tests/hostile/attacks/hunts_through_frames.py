"""Climbs the stack, looks at every local variable for what is expected, and rewrites them."""

import sys


def attack_once():
    frame, won = sys._getframe(), []
    while frame is not None:
        for name, value in list(frame.f_locals.items()):
            if name in (
                "expected",
                "allowed",
                "oracle",
                "solution",
                "points",
                "verdicts",
                "wanted",
                "seed_of_cases",
            ):
                won.append((frame.f_code.co_name, name))
            if isinstance(value, dict) and name in ("meta", "seen"):
                value["form"] = "one Tensor"
        frame = frame.f_back
    return won
