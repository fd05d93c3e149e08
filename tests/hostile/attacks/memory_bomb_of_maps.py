"""Maps memory by itself, past Python's and torch's allocators: 3 GiB, each page written."""

import mmap


def attack_once():
    kept = []
    try:
        while len(kept) < 48:
            kept.append(mmap.mmap(-1, 64 << 20))
            kept[-1][::4096] = bytes(64 << 8)
    except (OSError, MemoryError):
        kept.clear()
    return ["3 GiB"] if kept else []
