"""Read English texts that are already composed: find our sentences in them, and translate these.

A text is compared with the sentences of a catalogue, in which slots stand for numbers and names. A
text of several parts is read part by part. Nothing of the text is ever used as a template.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

SLOT = re.compile(r"\{(\w+)\}")
LINE = re.compile(
    r"(?P<text>.*?)(?P<at> \((?:look at )?(?:cell \d+, )?line \d+\))(?P<end>[.:]?)(?P<rest>\s.*)?",
    re.DOTALL,
)
"""a text, the location behind it, and what follows"""
NAMES = re.compile(
    r"`[^`]*`"  # code
    r"|[\w.]+(?:\[[^\]]*\])+"  # output[0, 1]
    r"|[\w.]+\(\)"
    r"|\b\w+=\S+"  # tokens=3
    r"|\b\w+\.[\w.]*\w"  # torch.save
    r"|\b\w*[\d_]\w*\b"  # 1e-05, float32, W_q
    r"|\b[A-Z][a-z]+[A-Z]\w*\b"  # TypeError
    r"|\b(?:nan|inf|NaN|None|True|False|bool|cpu|cuda|mps|meta|[a-zA-Z])\b"
)
"""what is the same in all languages"""
WORD = re.compile(r"[^\W\d_]")
MARKS = ".?:"
ENDS = (". ", "? ")
"""what stands between sentences"""
JOINTS = (": ", "; ", ", ")
"""what stands between parts of a sentence, the parts of parts last"""
MAX_LENGTH = 500
"""the most characters of a line that is read part by part"""
MAX_LINES = 40
"""the most lines of a text that are read part by part"""
MAX_PARTS = 60
"""the most parts that are looked up for a line, since submissions choose some lines"""
MAX_DEPTH = 12

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
    longest: str
    """the longest text around a slot, by which most texts are told apart"""

    def match(self, text: str) -> dict[str, str] | None:
        """Return what stands in the slots; None if the text is not this sentence."""
        first, *between, last = self.around
        if self.longest not in text or not (text.startswith(first) and text.endswith(last)):
            return None
        at, end = len(first), len(text) - len(last)
        found = []
        for literal in between:
            stop = text.find(literal, at + 1, end)
            if stop < 0:
                return None
            found.append(text[at:stop])
            at = stop + len(literal)
        slots = dict(zip(self.names, [*found, text[at:end]], strict=True))
        return slots if at < end and slots.get("n", "0").isdecimal() else None

    def is_code(self, index: int) -> bool:
        """Whether a slot stands between quotes of code, or is a name in parentheses."""
        is_quoted = "".join(self.around[: index + 1]).count("`") % 2
        return bool(is_quoted) or self.around[index][-1:] + self.around[index + 1][:1] == "()"


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
        lines = text.split("\n")
        return "\n".join([*map(self._read_line, lines[:MAX_LINES]), *lines[MAX_LINES:]])

    def knows(self, text: str) -> bool:
        """Whether all words of a line are known."""
        match = LINE.fullmatch(text)
        groups = ["text", "at", "rest"]
        parts = [text] if match is None else [(match[each] or "").strip(" ()") for each in groups]
        return all(_LineReader(self).settle(part) is not None for part in parts)

    def _read_line(self, line: str) -> str:
        match = LINE.fullmatch(line)
        if match is None:
            return self._read_part(line)
        at = self._read_part(match["at"].strip(" ()"))
        rest = match["rest"] or ""
        text = self._read_part(match["text"])
        return f"{text} ({at}){match['end']}{self._read_line(rest) if rest else ''}"

    def _read_part(self, text: str) -> str:
        said = _LineReader(self).settle(text) if len(text) <= MAX_LENGTH else None
        return text if said is None else said


def _list_phrases(message: str) -> Iterator[Phrase]:
    one, _, many = message.partition("\0")
    for text in filter(None, (one, many)):
        around = tuple(SLOT.split(text)[::2])
        if len(around) > 1 and WORD.search("".join(around)):
            yield Phrase(around, tuple(SLOT.findall(text)), one, many, max(around, key=len))


class _LineReader:
    """The reading of one line, which ends after a number of parts."""

    def __init__(self, reader: PhraseReader) -> None:
        self.reader = reader
        self.known: dict[str, str | None] = {}

    def settle(self, text: str, depth: int = 0) -> str | None:
        """Return a text in the language; None unless all of its words are known."""
        if not WORD.search(NAMES.sub("", text)):
            return text
        if text not in self.known:
            is_over = depth > MAX_DEPTH or len(self.known) > MAX_PARTS
            self.known[text] = None
            self.known[text] = None if is_over else self._settle(text, depth)
        return self.known[text]

    def _settle(self, text: str, depth: int) -> str | None:
        clean = text.strip()
        if clean != text:
            said = self.settle(clean, depth + 1)
            return None if said is None else text.replace(clean, said, 1)
        if text in self.reader.plain:
            return self.reader.translate(text, "", 1)
        if (said := self._settle_parts(text, ENDS, depth)) is not None:
            return said
        phrases = self.reader.phrases
        if text[-1] in MARKS:
            ended = [phrase for phrase in phrases if phrase.around[-1].endswith(text[-1])]
            if (said := self._settle_phrase(text, ended, depth)) is not None:
                return said
            if text[-1] == "?" and (said := self._settle_parts(text, JOINTS, depth)) is not None:
                return said  # only the last part asks
            if (said := self.settle(text[:-1], depth + 1)) is not None:
                return said + text[-1]
        said = self._settle_phrase(text, phrases, depth)
        return self._settle_parts(text, JOINTS, depth) if said is None else said

    def _settle_phrase(self, text: str, phrases: Sequence[Phrase], depth: int) -> str | None:
        for phrase in phrases:
            found = phrase.match(text)
            if found is not None and (said := self._say(phrase, found, depth)) is not None:
                return said
        return None

    def _say(self, phrase: Phrase, found: Mapping[str, str], depth: int) -> str | None:
        slots = {}
        for index, (name, value) in enumerate(found.items()):
            is_code = phrase.is_code(index)
            said = value if is_code else self.settle(value, depth + 1)
            if said is None or (is_code and "`" in value):
                return None
            slots[name] = said
        number = found.get("n", "")
        template = self.reader.translate(
            phrase.one, phrase.many, int(number) if number.isdecimal() and len(number) < 10 else 2
        )
        # A mark at the end is the sentence's, and must stay there.
        is_moved = not phrase.around[-1] and not template.endswith(f"{{{phrase.names[-1]}}}")
        if is_moved and slots[phrase.names[-1]][-1:] in MARKS:
            return None
        return fill(template, slots)

    def _settle_parts(self, text: str, joints: Sequence[str], depth: int) -> str | None:
        """Return a text whose two parts are known; a mark at the end belongs to its sentence."""
        for joint in joints:
            mark, blank = (joint[0], " ") if joint in ENDS else ("", joint)
            for start in _find_outside(text, joint):
                first = self.settle(text[:start] + mark, depth + 1)
                if first is None:
                    continue
                rest = self.settle(text[start + len(joint) :], depth + 1)
                if rest is not None:
                    return first + blank + rest
        return None


def _find_outside(text: str, joint: str) -> Iterator[int]:
    """Yield where a joint stands in a text, but not inside brackets or code."""
    level, quoted = 0, False
    for i, letter in enumerate(text):
        quoted ^= letter == "`"
        level += (letter in "([") - (letter in ")]") if not quoted else 0
        if not quoted and level <= 0 and i and text.startswith(joint, i):
            yield i
