"""The golden files: for each kind of mistake one text, and the names of the answers that get it.

A text is what its author reads first: the mistakes that were named, and the first claim that does
not hold, with its message. It counts nothing and says no more of a hint than the claim does, so
that a new claim changes only what is told of the answers that break it first.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headcheck.exercises import Exercise
from headcheck.properties.mistakes.catalogue import ALL as MISTAKES
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL

Text = tuple[str, ...]
"""rows, each with its label before it"""

FOLDER = Path(__file__).parent
HEAD = "=" * 8
HINTS = "hints"
"""what stands in the place of a name above the last part of a file"""
PLACE = re.compile(r" \((?:look at )?(cell \d+, )?line \d+\)$")
BESIDE = re.compile(rf"{PLACE.pattern}|^In the (first|second) result: ")
"""what stands beside the sentence of a mistake"""
NUMBER = re.compile(r"-?\b\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+|\d{6})")
VARIES = re.compile(r"`[^`]*`|[\[(][^\])]*[\])]|-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?|\bnan\b")


@dataclass(frozen=True)
class MistakeKind:
    """Answers whose authors are told the same; the text is that of the first one."""

    names: tuple[str, ...]
    text: Text

    @property
    def key(self) -> Text:
        return compute_key(self.text)


def format_row(label: str, said: str) -> str:
    """One row of a text, or of a message."""
    return f"{label:<10}{said}"


def find_rows(text: Text, label: str) -> list[str]:
    """What the rows with a label say."""
    return [each[10:] for each in text if each.startswith(format_row(label, ""))]


def compute_key(text: Text) -> Text:
    """What the texts of a kind have in common: the mistakes and the claim.

    Where no mistake is named, how the rows of the message begin, whatever the numbers.
    """
    mistakes = [format_row("mistake", PLACE.sub("", said)) for said in find_rows(text, "mistake")]
    shape = [
        _get_beginning(each) for each in text if each.startswith(("expected ", "got ", "slip "))
    ]
    return (*(mistakes or shape), *(format_row("claim", said) for said in find_rows(text, "claim")))


def _get_beginning(message: str) -> str:
    return re.split("[;,]", VARIES.sub("#", message))[0].strip()


def mask_numbers(text: Text) -> Text:
    """The same without the numbers that depend on the processor."""
    return tuple(NUMBER.sub("#", each) for each in text)


# ------------------------------------------------------------------------------- files


def load_kinds(slug: str) -> tuple[MistakeKind, ...]:
    """The kinds of mistakes that are kept of an exercise; none if there is no file yet."""
    path = FOLDER / f"{slug}.txt"
    parts = _split_parts(path.read_text(encoding="utf-8")) if path.exists() else {}
    return tuple(_parse_kind(name, lines) for name, lines in parts.items() if name != HINTS)


def load_legend(slug: str) -> Text:
    """The rows about hints with which the file of an exercise ends."""
    return _split_parts((FOLDER / f"{slug}.txt").read_text(encoding="utf-8"))[HINTS]


def _split_parts(written: str) -> dict[str, Text]:
    found = re.split(rf"^{HEAD} (\w+)\n", written, flags=re.MULTILINE)[1:]
    texts = (tuple(part.strip("\n").split("\n")) for part in found[1::2])
    return dict(zip(found[::2], texts, strict=True))


def _parse_kind(name: str, lines: Text) -> MistakeKind:
    text = tuple(line for line in lines if not line.startswith(format_row("also", "")))
    return MistakeKind((name, *find_rows(lines, "also")), text)


def write_kinds(exercise: Exercise, kinds: Iterable[MistakeKind]) -> Path:
    """Keep these kinds of mistakes as those of an exercise."""
    ordered = sorted(kinds, key=lambda kind: kind.names[0])
    parts = [
        (kind.names[0], *kind.text, *(format_row("also", name) for name in kind.names[1:]))
        for kind in ordered
    ]
    parts.append((HINTS, *list_hints(exercise, ordered)))
    path = FOLDER / f"{exercise.slug}.txt"
    written = "\n".join("".join(f"{line}\n" for line in (f"{HEAD} {n}", *t)) for n, *t in parts)
    path.write_text(written, encoding="utf-8")
    return path


def list_hints(exercise: Exercise, kinds: Collection[MistakeKind]) -> Text:
    """Every hint to the claims in these texts, once, and the claims that it is given to."""
    told = {said for kind in kinds for said in find_rows(kind.text, "claim")}
    to: dict[str, list[str]] = {}
    for claim in exercise.properties:
        if claim.hint and claim.claim in told:
            to.setdefault(claim.hint, []).append(claim.claim)
    return tuple(_iter_legend(to))


def _iter_legend(to: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for hint, claims in to.items():
        yield format_row("hint", hint)
        yield from (format_row("to", claim) for claim in claims)


# ------------------------------------------------------------------------------- kinds


def find_reworded(exercise: Exercise, kinds: Iterable[MistakeKind]) -> set[str]:
    """Who stands for the kinds whose claim or mistake is worded otherwise by now, or is gone."""
    claims = {claim.claim for claim in exercise.properties}
    named = (*MISTAKES, *(each.mistake for each in STRUCTURAL))
    mistakes = {each.describe(exercise.contract) for each in named}
    gone = set()
    for kind in kinds:
        told = [BESIDE.sub("", said).split(" Or: ") for said in find_rows(kind.text, "mistake")]
        known = {sentence for each in told for sentence in each} <= mistakes
        if not (known and set(find_rows(kind.text, "claim")) <= claims):
            gone.add(kind.names[0])
    return gone


def regroup(
    kinds: Iterable[MistakeKind], there: Collection[str], judged: Mapping[str, Text]
) -> list[MistakeKind]:
    """The kinds of the answers that are there, some of which have been judged again.

    Who stood for a kind goes on to do so; a new answer is only added to its names.
    """
    old = list(kinds)
    found: dict[Text, MistakeKind] = {}
    for kind in old:
        if kind.names[0] not in judged and kind.names[0] in there:
            names = tuple(name for name in kind.names if name in there and name not in judged)
            found[kind.key] = MistakeKind(names, kind.text)
    first = {kind.names[0] for kind in old}
    for name in sorted(judged, key=lambda name: (name not in first, name)):
        same = found.get(compute_key(judged[name]), MistakeKind((), judged[name]))
        found[same.key] = MistakeKind(
            (*same.names[:1], *sorted((*same.names[1:], name))), same.text
        )
    return list(found.values())


def add_whole_kinds(
    kinds: Iterable[MistakeKind], there: Collection[str], chosen: set[str]
) -> set[str]:
    """The chosen answers, and those to be judged with them: who stood for their kind may go."""
    again = set(chosen)
    for kind in kinds:
        if kind.names[0] in chosen or kind.names[0] not in there:
            again |= set(kind.names)
    return again & set(there)
