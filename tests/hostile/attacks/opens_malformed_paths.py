"""Opens paths that are too long, empty, of wrong bytes, or hold NUL."""

import functools
import os


@functools.cache
def attack():
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
            try:
                call(path)
            except (OSError, ValueError):
                pass
    return []
