"""Fingerprints of a sequence of words, by winnowing.

Theory. Every run of `GRAM` words has a hash. Of every `WINDOW` consecutive hashes the smallest is
kept, or the last of several smallest ones. So two sequences that share a run of `GRAM + WINDOW - 1`
words share a fingerprint, wherever the run is, and no run shorter than `GRAM` words is detected.

Names chosen by a submission are represented by numbers. They are renumbered within each gram, so
that a gram shows which positions hold the same name, and is the same wherever it occurs.

Source: S. Schleimer, D. Wilkerson, A. Aiken, "Winnowing: Local Algorithms for Document
Fingerprinting", SIGMOD 2003.
"""

import hashlib
from collections.abc import Collection, Sequence

from headcheck.grader.reading.token_units import NAME_PREFIX

GRAM = 10
"""the number of words in a gram, about two lines of an ordinary program"""
WINDOW = 6


def hash_grams(words: Sequence[str]) -> list[int]:
    """Return the hash of every run of `GRAM` words, by its start."""
    return [_hash(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1)]


def winnow(hashes: Sequence[int], without: Collection[int] = ()) -> dict[int, int]:
    """Return the selected hashes by their start, without those in `without`."""
    kept: dict[int, int] = {}
    for i in range(max(len(hashes) - WINDOW + 1, min(len(hashes), 1))):
        window = [(h, -j) for j, h in enumerate(hashes[i : i + WINDOW], i) if h not in without]
        if window:
            smallest, position = min(window)
            kept[-position] = smallest
    return kept


def _hash(words: Sequence[str]) -> int:
    numbers: dict[str, str] = {}
    renumbered = (
        numbers.setdefault(word, f"{NAME_PREFIX}{len(numbers)}") if word[0] == NAME_PREFIX else word
        for word in words
    )
    digest = hashlib.blake2b("\0".join(renumbered).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
