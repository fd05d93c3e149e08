"""What is alike, as text and as a page with both sides beside each other. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from grader.course.similar.documents import Compared, Evidence
from grader.course.similar.pairs import LEAST, Group, Pair, Place
from grader.report.render.html import environment
from grader.report.render.sanitise import harmless, one_line
from grader.report.render.text import aligned

WARNING = (
    "Likeness is no proof. People who learn from the same page, or together, write alike, and an "
    "exercise leaves little freedom. Read both, and ask both, before you conclude anything."
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a passage, on each side."""

    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Side:
    """Whose it is, and where."""

    student: str
    file: str


@dataclass(frozen=True, slots=True)
class Block:
    """A passage as it is shown."""

    one: str
    other: str
    words: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A pair as it is shown."""

    share: str
    words: int
    one: Side
    other: Side
    blocks: tuple[Block, ...]
    more: int
    """passages whose text is not shown"""


def text(compared: Compared) -> str:
    """The groups and the pairs, without their passages."""
    lines = [f"{one_line(compared.run)}: {tally(compared)}", ""]
    for group in compared.found.groups:
        lines += [f"the same but for names, comments, layout and order: {_names(group)}", ""]
    rows = [
        (
            row.share,
            f"{row.words} words",
            row.one.student,
            row.one.file,
            row.other.student,
            row.other.file,
        )
        for row in _rows(compared)
    ]
    if rows:
        head = ("alike", "", "student", "file", "student", "file")
        lines += [*aligned([head, *rows]), ""]
    if compared.unread:
        lines += [f"not read: {', '.join(map(one_line, compared.unread))}", ""]
    if rows or compared.found.groups:
        lines += [WARNING, ""]
    return "\n".join(lines)


def page(compared: Compared, version: str) -> str:
    """One page that needs no network, with the passages side by side."""
    return (
        environment()
        .get_template("similar.html.j2")
        .render(
            version=one_line(version),
            sandbox="",
            run=one_line(compared.run),
            tally=tally(compared),
            groups=[(_names(group), group.words) for group in compared.found.groups],
            rows=_rows(compared),
            unread=[one_line(each) for each in compared.unread],
            warning=WARNING,
        )
    )


def tally(compared: Compared) -> str:
    """How many were compared, and what came out."""
    found = compared.found
    said = [
        _count(compared.students, "student"),
        _count(len(found.groups), "group") + " of the same",
        _count(len(found.pairs), "pair") + " alike",
    ]
    if found.small:
        said.append(f"{_count(found.small, 'file')} under {LEAST} words of their own not compared")
    return ", ".join(said)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _names(group: Group) -> str:
    return ", ".join(dict.fromkeys(one_line(each.student) for each in group.documents))


def _rows(compared: Compared) -> list[Row]:
    pairs = zip(compared.found.pairs, compared.evidence, strict=True)
    return [_row(pair, evidence) for pair, evidence in pairs]


def _row(pair: Pair, evidence: Sequence[Evidence]) -> Row:
    return Row(
        share=f"{pair.share:.0%}",
        words=pair.words,
        one=Side(one_line(pair.one.student), one_line(pair.one.file)),
        other=Side(one_line(pair.other.student), one_line(pair.other.file)),
        blocks=tuple(map(_block, evidence)),
        more=len(pair.passages) - len(evidence),
    )


def _block(evidence: Evidence) -> Block:
    passage = evidence.passage
    sides = zip_longest(
        _numbered(evidence.one, passage.one), _numbered(evidence.other, passage.other)
    )
    lines = tuple(Line(one or "", other or "") for one, other in sides)
    return Block(_where(passage.one), _where(passage.other), passage.words, lines)


def _where(place: Place) -> str:
    cell = "" if place.cell is None else f"cell {place.cell}, "
    name = f"{one_line(place.unit)}, " if place.unit else ""
    lines = (
        f"line {place.first}" if place.first == place.last else f"lines {place.first}–{place.last}"
    )
    return f"{name}{cell}{lines}"


def _numbered(said: str, place: Place) -> list[str]:
    """The lines with their numbers in the cell or the file."""
    lines = enumerate(said.split("\n"), place.first)
    return [f"{number:>4}  {harmless(line)}" for number, line in lines]
