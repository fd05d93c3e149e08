"""The golden files: for each kind of mistake one text, and the names of the answers that get it.

A text is what its author reads first: the mistakes that were named, and the first claim that does
not hold, with its message. It counts nothing and says no more of a hint than the claim does, so
that a new claim changes only what is told of the answers that break it first.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exercises import Exercise
from reference.misconceptions import ALL as MISCONCEPTIONS

Text = tuple[str, ...]
"""rows, each with its label before it"""

FOLDER = Path(__file__).parent
HEAD = "=" * 8
HINTS = "hints"
"""what stands in the place of a name above the last part of a file"""
PLACE = re.compile(r" \((cell \d+, )?line \d+\)$")
NUMBER = re.compile(r"-?\b\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+|\d{6})")
VARIES = re.compile(r"`[^`]*`|[\[(][^\])]*[\])]|-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?|\bnan\b")


@dataclass(frozen=True)
class Kind:
    """Answers whose authors are told the same; the text is that of the first one."""

    names: tuple[str, ...]
    text: Text

    @property
    def key(self) -> Text:
        return key(self.text)


def row(label: str, said: str) -> str:
    """One row of a text, or of a message."""
    return f"{label:<10}{said}"


def rows(text: Text, label: str) -> list[str]:
    """What the rows with a label say."""
    return [each[10:] for each in text if each.startswith(row(label, ""))]


def key(text: Text) -> Text:
    """What the texts of a kind have in common: the mistakes and the claim.

    Where no mistake is named, how the rows of the message begin, whatever the numbers.
    """
    mistakes = [row("mistake", PLACE.sub("", said)) for said in rows(text, "mistake")]
    shape = [_beginning(each) for each in text if each.startswith(("expected ", "got "))]
    return (*(mistakes or shape), *(row("claim", said) for said in rows(text, "claim")))


def _beginning(message: str) -> str:
    return re.split("[;,]", VARIES.sub("#", message))[0].strip()


def blurred(text: Text) -> Text:
    """The same without the numbers that depend on the processor."""
    return tuple(NUMBER.sub("#", each) for each in text)


# ------------------------------------------------------------------------------- files


def read(slug: str) -> tuple[Kind, ...]:
    """The kinds of mistakes that are kept of an exercise; none if there is no file yet."""
    path = FOLDER / f"{slug}.txt"
    parts = _parts(path.read_text(encoding="utf-8")) if path.exists() else {}
    return tuple(_kind(name, lines) for name, lines in parts.items() if name != HINTS)


def legend(slug: str) -> Text:
    """The rows about hints with which the file of an exercise ends."""
    return _parts((FOLDER / f"{slug}.txt").read_text(encoding="utf-8"))[HINTS]


def _parts(written: str) -> dict[str, Text]:
    found = re.split(rf"^{HEAD} (\w+)\n", written, flags=re.MULTILINE)[1:]
    texts = (tuple(part.strip("\n").split("\n")) for part in found[1::2])
    return dict(zip(found[::2], texts, strict=True))


def _kind(name: str, lines: Text) -> Kind:
    text = tuple(line for line in lines if not line.startswith(row("also", "")))
    return Kind((name, *rows(lines, "also")), text)


def write(exercise: Exercise, kinds: Iterable[Kind]) -> Path:
    """Keep these kinds of mistakes as those of an exercise."""
    ordered = sorted(kinds, key=lambda kind: kind.names[0])
    parts = [
        (kind.names[0], *kind.text, *(row("also", name) for name in kind.names[1:]))
        for kind in ordered
    ]
    parts.append((HINTS, *hints(exercise, ordered)))
    path = FOLDER / f"{exercise.slug}.txt"
    written = "\n".join("".join(f"{line}\n" for line in (f"{HEAD} {n}", *t)) for n, *t in parts)
    path.write_text(written, encoding="utf-8")
    return path


def hints(exercise: Exercise, kinds: Collection[Kind]) -> Text:
    """Every hint to the claims in these texts, once, and the claims that it is given to."""
    told = {said for kind in kinds for said in rows(kind.text, "claim")}
    to: dict[str, list[str]] = {}
    for claim in exercise.properties:
        if claim.hint and claim.claim in told:
            to.setdefault(claim.hint, []).append(claim.claim)
    return tuple(_legend(to))


def _legend(to: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for hint, claims in to.items():
        yield row("hint", hint)
        yield from (row("to", claim) for claim in claims)


# ------------------------------------------------------------------------------- kinds


def reworded(exercise: Exercise, kinds: Iterable[Kind]) -> set[str]:
    """Who stands for the kinds whose claim or mistake is worded otherwise by now, or is gone."""
    claims = {claim.claim for claim in exercise.properties}
    mistakes = {each.sentence for each in MISCONCEPTIONS}
    gone = set()
    for kind in kinds:
        named = [PLACE.sub("", said).split(" Or: ") for said in rows(kind.text, "mistake")]
        known = {sentence for each in named for sentence in each} <= mistakes
        if not (known and set(rows(kind.text, "claim")) <= claims):
            gone.add(kind.names[0])
    return gone


def regrouped(
    kinds: Iterable[Kind], there: Collection[str], judged: Mapping[str, Text]
) -> list[Kind]:
    """The kinds of the answers that are there, some of which have been judged again.

    Who stood for a kind goes on to do so; a new answer is only added to its names.
    """
    old = list(kinds)
    found: dict[Text, Kind] = {}
    for kind in old:
        if kind.names[0] not in judged and kind.names[0] in there:
            names = tuple(name for name in kind.names if name in there and name not in judged)
            found[kind.key] = Kind(names, kind.text)
    first = {kind.names[0] for kind in old}
    for name in sorted(judged, key=lambda name: (name not in first, name)):
        same = found.get(key(judged[name]), Kind((), judged[name]))
        found[same.key] = Kind((*same.names[:1], *sorted((*same.names[1:], name))), same.text)
    return list(found.values())


def with_their_kind(kinds: Iterable[Kind], there: Collection[str], chosen: set[str]) -> set[str]:
    """The chosen answers, and those to be judged with them: who stood for their kind may go."""
    again = set(chosen)
    for kind in kinds:
        if kind.names[0] in chosen or kind.names[0] not in there:
            again |= set(kind.names)
    return again & set(there)
