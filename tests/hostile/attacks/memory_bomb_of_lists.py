"""Doubles a list, to at most 2 GiB."""


def attack():
    kept = [0] * (1 << 20)
    while len(kept) < 1 << 28:
        kept += kept
    raise RuntimeError("@won@ 2 GiB")
