"""Look after the catalogues; this needs Babel, of the extra `dev`.

`python -m headcheck.grader.report.languages.catalogues` says how much of each exercise is
translated, with SLUG CODE it writes what is missing as a PO file, and with --compile it writes the
catalogues that are shipped.
"""

import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from headcheck.exercises import ALL as EXERCISES
from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader.report.languages.extraction import Forms, list_pages, list_said
from headcheck.grader.report.languages.language import (
    DOMAIN,
    FOLDER,
    Language,
    find_language,
    list_languages,
)
from headcheck.grader.sandbox.worker.crashes.sentences import SENTENCES
from headcheck.properties.mistakes.catalogue import ALL as MISTAKES
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL


def find_catalogue(code: str) -> Path:
    """Return the PO file of a language."""
    return FOLDER / code / "LC_MESSAGES" / f"{DOMAIN}.po"


def load_catalogue(code: str) -> Catalog:
    """Read the PO file of a language."""
    with find_catalogue(code).open("rb") as file:
        return read_po(file, locale=code, domain=DOMAIN, abort_invalid=True)


def compile_catalogue(code: str) -> bytes:
    """Return what is shipped of a language."""
    out = io.BytesIO()
    write_mo(out, load_catalogue(code))
    return out.getvalue()


def list_texts(exercise: Exercise) -> Iterator[Forms]:
    """Yield what a report on an answer can say of itself: all but what a submission puts in."""
    contract = exercise.contract
    names = {each.name for each in exercise.properties}
    yield from sorted(list_said())
    yield from ((text,) for text in list_pages(exercise))
    for each in exercise.properties:
        yield from ((text,) for text in (each.claim, each.hint) if text)
    yield from ((m.describe(contract),) for m in MISTAKES if m.applies_to(contract))
    for known in STRUCTURAL:
        shown = {p.name for symptom in known.symptoms for p in symptom.properties}
        if shown & names and known.mistake.applies_to(contract):
            yield (known.mistake.describe(contract),)
    yield from ((text,) for text in SENTENCES.values())


def list_missing(exercise: Exercise, language: Language) -> list[Forms]:
    """Return the texts of an exercise that have no translation, in order."""
    known = language.messages
    texts = dict.fromkeys(list_texts(exercise))
    return [
        forms for forms in texts if "\0".join(forms) not in known and not _reads(forms, language)
    ]


def _reads(forms: Forms, language: Language) -> bool:
    return len(forms) == 1 and "{" not in forms[0] and language.knows(forms[0])


def _tell_progress() -> Iterator[str]:
    codes = list_languages()[1:]
    yield f"{'':<30}" + "".join(f"{code:>6}" for code in codes)
    for exercise in EXERCISES:
        total = len(set(list_texts(exercise)))
        missing = [len(list_missing(exercise, find_language(code))) for code in codes]
        yield f"{exercise.slug:<30}" + "".join(f"{100 * (1 - n / total):>4.0f} %" for n in missing)


def _write_missing(slug: str, code: str) -> None:
    catalogue = Catalog(locale=code, domain=DOMAIN)
    for forms in list_missing(BY_SLUG[slug], find_language(code)):
        catalogue.add(forms if len(forms) > 1 else forms[0])
    write_po(sys.stdout.buffer, catalogue, omit_header=True, width=100)


def main(words: Iterable[str]) -> None:
    """Do what the words say."""
    match tuple(words):
        case ("--compile",):
            for path in FOLDER.glob(f"*/LC_MESSAGES/{DOMAIN}.po"):
                path.with_suffix(".mo").write_bytes(compile_catalogue(path.parts[-3]))
        case (slug, code):
            _write_missing(slug, code)
        case _:
            sys.stdout.writelines(f"{line}\n" for line in _tell_progress())


if __name__ == "__main__":
    main(sys.argv[1:])
