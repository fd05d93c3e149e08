"""Find our name in what students printed, however it is spelled."""

import html
import re
import unicodedata
from collections.abc import Iterable

LOOKALIKES = {
    **dict.fromkeys("3еεɛҽ℮", "e"),
    **dict.fromkeys("4@аα", "a"),
    **dict.fromkeys("һհнηᏂ", "h"),
    **dict.fromkeys("сϲ(", "c"),
    **dict.fromkeys("ԁժ", "d"),
    **dict.fromkeys("кκĸҡ", "k"),
}
"""characters of other scripts, and digits, that are read as letters of the name"""
LATIN = re.compile(r"(?:LATIN|REGIONAL)[A-Z ]* LETTER(?: SMALL CAPITAL)? ([A-Z])\b")
"""the letter in Unicode's name of a character that is made from one"""
OTHER = "?"
"""stands for every other character that is not ASCII and is shown"""
# Any letter may be one that we do not know, but neither half of the name may have no known one.
SPELLED = re.compile(r"(?!\?{4})[h?][e?][a?][d?](?!\?{5})[c?][h?][e?][c?][k?]")
MARKUP = re.compile(r"<[^<>]*>|\x1b\[[0-9;]*[A-Za-z]")


def is_named(texts: Iterable[str]) -> bool:
    """Whether these texts, one after the other, can be read as if they named headcheck.

    Accents, spaces, punctuation, markup and lookalike letters do not matter. The answer is yes
    rather than no: it only adds a true sentence.
    """
    text = "".join(texts)
    plain = MARKUP.sub("", html.unescape(MARKUP.sub("", text)))
    return any(SPELLED.search(_reduce(each)) for each in (text, plain))


def _reduce(text: str) -> str:
    """Return the letters of a text as they are read, in lower case and without accents."""
    plain = unicodedata.normalize("NFKD", text.casefold()).casefold()
    letters = plain.translate({ord(each): _read_letter(each) for each in set(plain)})
    return re.sub(rf"[^a-z{OTHER}]", "", letters)


def _read_letter(character: str) -> str:
    if character in LOOKALIKES:
        return LOOKALIKES[character]
    if character.isascii():
        return character if character.isalpha() else ""
    latin = LATIN.search(unicodedata.name(character, ""))
    if latin:
        return latin[1].lower()
    is_shown = unicodedata.category(character)[0] in "LNS"  # letters, numbers, symbols
    return OTHER if is_shown else ""
