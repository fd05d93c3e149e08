"""Matches a pattern that takes exponential time, in C."""

import re


def attack():
    re.match(r"(a+)+$", "a" * 60 + "b")
