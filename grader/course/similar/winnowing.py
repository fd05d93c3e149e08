"""Fingerprints of a sequence of words, by winnowing.

Theory. Every run of `GRAM` words has a hash. Of every `WINDOW` hashes in a row the smallest is
kept, the last one where several are. So two sequences that share a run of `GRAM + WINDOW - 1` words
share a fingerprint, wherever it stands, and no run shorter than `GRAM` words is ever noticed.

Names that a submission chose come as numbers. Within a gram they are counted anew, so that a gram
says which places hold the same name, and is the same wherever it stands.

Source: S. Schleimer, D. Wilkerson, A. Aiken, "Winnowing: Local Algorithms for Document
Fingerprinting", SIGMOD 2003.
"""

import hashlib
from collections.abc import Collection, Sequence

from grader.reading.token_units import NAME_PREFIX

GRAM = 10
"""words; two lines or so of an ordinary program"""
WINDOW = 6


def hash_grams(words: Sequence[str]) -> list[int]:
    """The hash of every run of `GRAM` words, by where it begins."""
    return [_hash(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1)]


def winnow(hashes: Sequence[int], without: Collection[int] = ()) -> dict[int, int]:
    """The hashes that are kept, by where they begin; none of those that are left out."""
    kept: dict[int, int] = {}
    for i in range(max(len(hashes) - WINDOW + 1, min(len(hashes), 1))):
        window = [(h, -j) for j, h in enumerate(hashes[i : i + WINDOW], i) if h not in without]
        if window:
            smallest, place = min(window)
            kept[-place] = smallest
    return kept


def _hash(words: Sequence[str]) -> int:
    numbers: dict[str, str] = {}
    anew = (
        numbers.setdefault(word, f"{NAME_PREFIX}{len(numbers)}") if word[0] == NAME_PREFIX else word
        for word in words
    )
    digest = hashlib.blake2b("\0".join(anew).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
