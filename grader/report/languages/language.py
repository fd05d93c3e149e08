"""A language: its sentences with their slots filled, and the English text of records in it."""

import gettext
import io
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from headcheck.grader.report.languages.messages import read_messages
from headcheck.grader.report.languages.phrases import PhraseReader, Translate, fill

FOLDER = Path(__file__).parent
DOMAIN = "headcheck"
SOURCE = "en"


class UnknownLanguage(ValueError):
    """No such language; the one-line message lists those that exist."""


@dataclass(frozen=True)
class Language:
    """A language that students read. Two languages with the same code are equal."""

    code: str
    texts: gettext.NullTranslations = field(compare=False, repr=False)
    reader: PhraseReader = field(compare=False, repr=False)
    messages: frozenset[str] = field(compare=False, repr=False)
    """the English texts that have a translation; the forms of a text are joined by NUL"""

    def say(self, text: str, /, **slots: object) -> str:
        """Return a sentence with its slots filled. `text` is ours, and never from a submission."""
        return fill(_translate(self.texts, text, "", 1), slots)

    def count(self, one: str, many: str, number: int, /, **slots: object) -> str:
        """Return a sentence in the form that a number needs; the slot `n` is the number."""
        return fill(_translate(self.texts, one, many, number), {"n": number, **slots})

    def read(self, text: str) -> str:
        """Return an English text of a record in this language, as far as it is known.

        The text may quote a submission: it is compared with our sentences, and never a template.
        """
        return self.reader.read(text)

    def knows(self, text: str) -> bool:
        """Whether all words of an English text have a translation."""
        return self.reader.knows(text)


def _translate(texts: gettext.NullTranslations, one: str, many: str, number: int) -> str:
    if many:
        return texts.ngettext(one, many, number)
    return texts.gettext(one) if one else ""  # the text of "" is the head of a catalogue


def _make_language(
    code: str, texts: gettext.NullTranslations, messages: dict[str, str]
) -> Language:
    translate: Translate = partial(_translate, texts)
    return Language(code, texts, PhraseReader.make(tuple(messages), translate), frozenset(messages))


ENGLISH = _make_language(SOURCE, gettext.NullTranslations(), {})


def get_language(code: str) -> Language:
    """Return a language that was chosen some time ago: English if it does not exist any more."""
    return find_language(code) if code in list_languages() else ENGLISH


def list_languages() -> tuple[str, ...]:
    """Return the codes of all languages, English first."""
    return (SOURCE, *sorted(path.parts[-3] for path in FOLDER.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")))


@cache
def find_language(code: str) -> Language:
    """Return a language by its code. Raises UnknownLanguage. The environment is not consulted."""
    if code == SOURCE:
        return ENGLISH
    if code not in list_languages():
        listed = ", ".join(list_languages())
        raise UnknownLanguage(f"there is no language {code[:40]!r}; there are {listed}")
    data = (FOLDER / code / "LC_MESSAGES" / f"{DOMAIN}.mo").read_bytes()
    return _make_language(code, gettext.GNUTranslations(io.BytesIO(data)), read_messages(data))
