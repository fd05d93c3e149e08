"""Opens paths that are too long, empty, of wrong bytes, or hold NUL."""

import os


def attack_once():
    for path in (
        "x" * 300,
        "/" + "a/" * 40_000,
        "",
        "\0",
        "a\0b",
        b"\xff\xfe",
        "\ud800",
        "\U000e0041" * 64,
        "/" * 10_000,
    ):
        for call in (open, os.stat, os.listdir, os.readlink):
            with suppress(OSError, ValueError):
                call(path)
    return []
