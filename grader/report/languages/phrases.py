"""Read English texts that are already composed: find our sentences in them, and translate these.

A text is compared with the sentences of a catalogue, in which slots stand for numbers and names. A
text of several parts is read part by part. Nothing of the text is ever used as a template.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

SLOT = re.compile(r"\{(\w+)\}")
LINE = re.compile(
    r"(?P<text>.*?)(?P<at> \((?:look at )?(?:cell \d+, )?line \d+\))(?P<end>[.:]?)", re.S
)
"""a text, and the location behind it"""
NAMES = re.compile(
    r"`[^`]*`"  # code
    r"|[\w.]+(?:\[[^\]]*\])+"  # output[0, 1]
    r"|[\w.]+\(\)"
    r"|\b\w+=\S+"  # tokens=3
    r"|\b\w*[\d_]\w*\b"  # 1e-05, float32, W_q
    r"|\b(?:nan|inf|NaN|None|True|False|bool|[a-zA-Z])\b"
    r"|\b\w+\.[\w.]*\w"  # torch.save
)
"""what is the same in all languages"""
WORD = re.compile(r"[^\W\d_]")
JOINTS = (". ", "? ", ": ", "; ", ", ")
"""what stands between parts, the parts of parts last"""
MAX_LENGTH = 600
"""the most characters of a line that is read part by part"""
MAX_STEPS = 20_000
"""the most comparisons for a line, since submissions choose some lines"""
MAX_DEPTH = 6

Translate = Callable[[str, str, int], str]
"""returns a sentence by its English, its English plural or "", and a number"""


def fill(template: str, slots: Mapping[str, object]) -> str:
    """Put values into a template, in one pass: what is put in is not looked at again."""
    return SLOT.sub(lambda m: str(slots[m[1]]) if m[1] in slots else m[0], template)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence with slots: the texts around the slots, and the names of the slots."""

    around: tuple[str, ...]
    names: tuple[str, ...]
    one: str
    many: str

    def match(self, text: str) -> dict[str, str] | None:
        """Return what stands in the slots; None if the text is not this sentence."""
        first, *between, last = self.around
        if not (text.startswith(first) and text.endswith(last)):
            return None
        at, end = len(first), len(text) - len(last)
        found = []
        for literal in between:
            stop = text.find(literal, at + 1, end)
            if stop < 0:
                return None
            found.append(text[at:stop])
            at = stop + len(literal)
        return dict(zip(self.names, [*found, text[at:end]], strict=True)) if at < end else None

    def is_code(self, index: int) -> bool:
        """Whether a slot stands between quotes of code."""
        return self.around[index].endswith("`") and self.around[index + 1].startswith("`")


@dataclass(frozen=True, slots=True)
class PhraseReader:
    """The sentences of a language by which texts are read."""

    phrases: tuple[Phrase, ...]
    """with slots; those with more words first"""
    plain: frozenset[str]
    translate: Translate

    @classmethod
    def make(cls, messages: tuple[str, ...], translate: Translate) -> "PhraseReader":
        """Return the reader of these messages; the forms of a message are joined by NUL."""
        found = [phrase for message in messages for phrase in _list_phrases(message)]
        found.sort(key=lambda phrase: -sum(map(len, phrase.around)))
        plain = frozenset(text for text in messages if not SLOT.search(text) and "\0" not in text)
        return cls(tuple(found), plain, translate)

    def read(self, text: str) -> str:
        """Return a text in the language, line by line, as far as its words are known."""
        if not self.plain:
            return text
        if text in self.plain:
            return self.translate(text, "", 1)
        return "\n".join(map(self._read_line, text.split("\n")))

    def knows(self, text: str) -> bool:
        """Whether all words of a line are known."""
        return all(_Reading(self).settle(part) is not None for part in _cut_location(text)[:1])

    def _read_line(self, line: str) -> str:
        text, at, end = _cut_location(line)
        reading = _Reading(self)
        said = reading.settle(text) if len(text) <= MAX_LENGTH else None
        said = text if said is None else said
        if at:
            inside = at.strip(" ()")
            told = _Reading(self).settle(inside)
            at = at if told is None else f" ({told})"
        return f"{said}{at}{end}"


def _list_phrases(message: str) -> Iterator[Phrase]:
    one, _, many = message.partition("\0")
    for text in filter(None, (one, many)):
        around = tuple(SLOT.split(text)[::2])
        if len(around) > 1:
            yield Phrase(around, tuple(SLOT.findall(text)), one, many)


def _cut_location(line: str) -> tuple[str, str, str]:
    match = LINE.fullmatch(line)
    return (match["text"], match["at"], match["end"]) if match else (line, "", "")


class _Reading:
    """The reading of one line, which ends after a number of comparisons."""

    def __init__(self, reader: PhraseReader) -> None:
        self.reader = reader
        self.steps = 0
        self.known: dict[str, str | None] = {}

    def settle(self, text: str, depth: int = 0) -> str | None:
        """Return a text in the language; None unless all of its words are known."""
        if not WORD.search(NAMES.sub("", text)):
            return text
        if text not in self.known:
            self.known[text] = None if depth > MAX_DEPTH else self._settle(text, depth)
        return self.known[text]

    def _settle(self, text: str, depth: int) -> str | None:
        clean = text.strip()
        if clean != text:
            said = self.settle(clean, depth + 1)
            return None if said is None else text.replace(clean, said, 1)
        if text in self.reader.plain:
            return self.reader.translate(text, "", 1)
        for phrase in self.reader.phrases:
            self.steps += 1
            if self.steps > MAX_STEPS:
                return None
            found = phrase.match(text)
            if found is not None and (said := self._say(phrase, found, depth)) is not None:
                return said
        if text[-1] in ".?:" and (said := self.settle(text[:-1], depth + 1)) is not None:
            return said + text[-1]
        return self._settle_parts(text, depth)

    def _say(self, phrase: Phrase, found: Mapping[str, str], depth: int) -> str | None:
        slots = {}
        for index, (name, value) in enumerate(found.items()):
            said = value if phrase.is_code(index) else self.settle(value, depth + 1)
            if said is None:
                return None
            slots[name] = said
        number = found.get("n", "")
        template = self.reader.translate(
            phrase.one, phrase.many, int(number) if number.isdecimal() and len(number) < 10 else 2
        )
        return fill(template, slots)

    def _settle_parts(self, text: str, depth: int) -> str | None:
        for joint in JOINTS:
            parts = _split_outside(text, joint)
            if len(parts) > 1:
                said = [self.settle(part, depth + 1) for part in parts]
                if None not in said:
                    return joint.join(part for part in said if part is not None)
        return None


def _split_outside(text: str, joint: str) -> list[str]:
    """Split a text, but not inside brackets or code."""
    parts, level, quoted, start = [], 0, False, 0
    for i, letter in enumerate(text):
        quoted ^= letter == "`"
        level += (letter in "([") - (letter in ")]") if not quoted else 0
        if not quoted and level <= 0 and i >= start and text.startswith(joint, i):
            parts.append(text[start:i])
            start = i + len(joint)
    return [*parts, text[start:]]
