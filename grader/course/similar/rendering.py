"""Render similar submissions as text and as a page with both sides in columns. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap, zip_longest

from headcheck.grader.course.similar.documents import PassageText, SimilarityReport
from headcheck.grader.course.similar.pairs import MIN_WORDS, IdenticalGroup, LineRange, Pair
from headcheck.grader.report.render.html import get_environment
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.text import align_columns

WARNING = (
    "Similarity is not a proof. People who learn from the same page, or together, write "
    "similar code, and an exercise leaves little freedom. Read both, and ask both, before "
    "you conclude anything."
)


@dataclass(frozen=True, slots=True)
class PassageLine:
    """A line of a passage on each side."""

    one: str
    other: str


@dataclass(frozen=True, slots=True)
class PairSide:
    """One side of a pair: a student and a file."""

    student: str
    file: str


@dataclass(frozen=True, slots=True)
class PassageBlock:
    """A passage as displayed."""

    one: str
    other: str
    words: int
    lines: tuple[PassageLine, ...]


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair as displayed."""

    share: str
    words: int
    one: PairSide
    other: PairSide
    blocks: tuple[PassageBlock, ...]
    more: int
    """the number of passages without text"""


def format_text(report: SimilarityReport) -> str:
    """Return the groups and the pairs as text, without their passages."""
    lines = [f"{sanitise_line(report.run)}: {format_tally(report)}", ""]
    for group in report.similar.groups:
        lines += [
            f"the same except for names, comments, layout and order: {_format_names(group)}",
            "",
        ]
    rows = []
    for row in _make_rows(report):
        sides = (row.one.student, row.one.file, row.other.student, row.other.file)
        rows.append((row.share, f"{row.words} words", *sides))
    if rows:
        head = ("alike", "", "student", "file", "student", "file")
        lines += [*align_columns([head, *rows]), ""]
    if report.unread:
        lines += [f"not read: {', '.join(map(sanitise_line, report.unread))}", ""]
    if rows or report.similar.groups:
        lines += [WARNING, ""]
    return "\n".join(lines)


def render_page(report: SimilarityReport, version: str) -> str:
    """Return a self-contained page with the passages side by side."""
    template = get_environment().get_template("similar.html.j2")
    return template.render(
        version=sanitise_line(version),
        sandbox="",
        run=sanitise_line(report.run),
        tally=format_tally(report),
        groups=[(_format_names(group), group.words) for group in report.similar.groups],
        rows=_make_rows(report),
        unread=[sanitise_line(each) for each in report.unread],
        warning=WARNING,
    )


def format_tally(report: SimilarityReport) -> str:
    """Return the numbers of compared students, identical groups and similar pairs."""
    similar = report.similar
    counts = [
        _format_count(report.students, "student"),
        _format_count(len(similar.groups), "group") + " of the same",
        _format_count(len(similar.pairs), "pair") + " alike",
    ]
    if similar.too_small:
        files = _format_count(similar.too_small, "file")
        counts.append(f"{files} under {MIN_WORDS} words of their own not compared")
    return ", ".join(counts)


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _format_names(group: IdenticalGroup) -> str:
    return ", ".join(dict.fromkeys(sanitise_line(each.student) for each in group.documents))


def _make_rows(report: SimilarityReport) -> list[PairRow]:
    pairs = zip(report.similar.pairs, report.passage_texts, strict=True)
    return [_make_row(pair, texts) for pair, texts in pairs]


def _make_row(pair: Pair, texts: Sequence[PassageText]) -> PairRow:
    return PairRow(
        share=f"{pair.share:.0%}",
        words=pair.words,
        one=PairSide(sanitise_line(pair.one.student), sanitise_line(pair.one.file)),
        other=PairSide(sanitise_line(pair.other.student), sanitise_line(pair.other.file)),
        blocks=tuple(map(_make_block, texts)),
        more=len(pair.passages) - len(texts),
    )


def _make_block(text: PassageText) -> PassageBlock:
    passage = text.passage
    ones = _number_lines(text.one, passage.one)
    others = _number_lines(text.other, passage.other)
    lines = tuple(starmap(PassageLine, zip_longest(ones, others, fillvalue="")))
    one, other = _format_location(passage.one), _format_location(passage.other)
    return PassageBlock(one, other, passage.words, lines)


def _format_location(line_range: LineRange) -> str:
    cell = "" if line_range.cell is None else f"cell {line_range.cell}, "
    name = f"{sanitise_line(line_range.unit)}, " if line_range.unit else ""
    first, last = line_range.first, line_range.last
    lines = f"line {first}" if first == last else f"lines {first}–{last}"
    return f"{name}{cell}{lines}"


def _number_lines(text: str, line_range: LineRange) -> list[str]:
    """Return the lines with their numbers in the cell or the file."""
    lines = enumerate(text.split("\n"), line_range.first)
    return [f"{number:>4}  {sanitise(line)}" for number, line in lines]
