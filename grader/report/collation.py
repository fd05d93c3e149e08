"""The order of names: accents and case only break ties, and numbers are sorted by their size.

The order follows no single language and needs no locale: a class has names in many languages.
"""

import re
import unicodedata

LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h"}
)
"""letters that Unicode does not decompose, each with the letters as which it is sorted"""

CollationKey = tuple[tuple[tuple[int, str], ...], str]


def fold_accents(text: str) -> str:
    """Return the text in lower case and without accents: `Šárka Groß` is `sarka gross`."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in apart if unicodedata.category(c) != "Mn").translate(LETTERS)


def collate(text: str) -> CollationKey:
    """Return the key by which names are sorted: `Émile` before `Zoë`, `ps9` before `ps10`."""
    parts = re.split("([0-9]+)", fold_accents(text))
    return tuple(_rank(part, is_number=i % 2 == 1) for i, part in enumerate(parts)), text


def _rank(part: str, *, is_number: bool) -> tuple[int, str]:
    # A number of more digits is larger; int() would refuse one of thousands.
    digits = part.lstrip("0")
    return (len(digits), digits) if is_number else (0, part)
