"""Numbers with their nouns, and lists, in sentences: `1 token`, `a, b and c`."""

from collections.abc import Sequence


def count(number: int, noun: str) -> str:
    """Return `1 token` or `3 tokens`, given the singular of a regular noun."""
    return f"{number} {noun}{'s' * (number != 1)}"


def count_share(part: int, whole: int, noun: str) -> str:
    """Return the beginning of a sentence: `2 of 3 elements are`, or `the only element is`."""
    which = f"the only {noun}" if part == whole == 1 else f"{part} of {count(whole, noun)}"
    return f"{which} {'is' if part == 1 else 'are'}"


def join_words(parts: Sequence[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
