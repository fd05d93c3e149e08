"""What is alike, as text and as a page with both sides beside each other. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from grader.course.similar.documents import PassageText, SimilarityReport
from grader.course.similar.pairs import MIN_WORDS, IdenticalGroup, LineRange, Pair
from grader.report.render.html import get_environment
from grader.report.render.sanitise import sanitise, sanitise_line
from grader.report.render.text import align_columns

WARNING = (
    "Likeness is no proof. People who learn from the same page, or together, write alike, and an "
    "exercise leaves little freedom. Read both, and ask both, before you conclude anything."
)


@dataclass(frozen=True, slots=True)
class PassageLine:
    """One line of a passage, on each side."""

    one: str
    other: str


@dataclass(frozen=True, slots=True)
class PairSide:
    """Whose it is, and where."""

    student: str
    file: str


@dataclass(frozen=True, slots=True)
class PassageBlock:
    """A passage as it is shown."""

    one: str
    other: str
    words: int
    lines: tuple[PassageLine, ...]


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair as it is shown."""

    share: str
    words: int
    one: PairSide
    other: PairSide
    blocks: tuple[PassageBlock, ...]
    more: int
    """passages whose text is not shown"""


def format_text(similarity_report: SimilarityReport) -> str:
    """The groups and the pairs, without their passages."""
    lines = [f"{sanitise_line(similarity_report.run)}: {format_tally(similarity_report)}", ""]
    for group in similarity_report.similar.groups:
        lines += [f"the same but for names, comments, layout and order: {_format_names(group)}", ""]
    rows = [
        (
            row.share,
            f"{row.words} words",
            row.one.student,
            row.one.file,
            row.other.student,
            row.other.file,
        )
        for row in _make_rows(similarity_report)
    ]
    if rows:
        head = ("alike", "", "student", "file", "student", "file")
        lines += [*align_columns([head, *rows]), ""]
    if similarity_report.unread:
        lines += [f"not read: {', '.join(map(sanitise_line, similarity_report.unread))}", ""]
    if rows or similarity_report.similar.groups:
        lines += [WARNING, ""]
    return "\n".join(lines)


def render_page(similarity_report: SimilarityReport, version: str) -> str:
    """One page that needs no network, with the passages side by side."""
    return (
        get_environment()
        .get_template("similar.html.j2")
        .render(
            version=sanitise_line(version),
            sandbox="",
            run=sanitise_line(similarity_report.run),
            tally=format_tally(similarity_report),
            groups=[
                (_format_names(group), group.words) for group in similarity_report.similar.groups
            ],
            rows=_make_rows(similarity_report),
            unread=[sanitise_line(each) for each in similarity_report.unread],
            warning=WARNING,
        )
    )


def format_tally(similarity_report: SimilarityReport) -> str:
    """How many were compared, and what came out."""
    found = similarity_report.similar
    said = [
        _format_count(similarity_report.students, "student"),
        _format_count(len(found.groups), "group") + " of the same",
        _format_count(len(found.pairs), "pair") + " alike",
    ]
    if found.too_small:
        said.append(
            f"{_format_count(found.too_small, 'file')} under {MIN_WORDS} words of their own not "
            f"compared"
        )
    return ", ".join(said)


def _format_count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _format_names(group: IdenticalGroup) -> str:
    return ", ".join(dict.fromkeys(sanitise_line(each.student) for each in group.documents))


def _make_rows(similarity_report: SimilarityReport) -> list[PairRow]:
    pairs = zip(similarity_report.similar.pairs, similarity_report.passage_texts, strict=True)
    return [_make_row(pair, evidence) for pair, evidence in pairs]


def _make_row(pair: Pair, evidence: Sequence[PassageText]) -> PairRow:
    return PairRow(
        share=f"{pair.share:.0%}",
        words=pair.words,
        one=PairSide(sanitise_line(pair.one.student), sanitise_line(pair.one.file)),
        other=PairSide(sanitise_line(pair.other.student), sanitise_line(pair.other.file)),
        blocks=tuple(map(_make_block, evidence)),
        more=len(pair.passages) - len(evidence),
    )


def _make_block(evidence: PassageText) -> PassageBlock:
    passage = evidence.passage
    sides = zip_longest(
        _number_lines(evidence.one, passage.one), _number_lines(evidence.other, passage.other)
    )
    lines = tuple(PassageLine(one or "", other or "") for one, other in sides)
    return PassageBlock(
        _format_location(passage.one), _format_location(passage.other), passage.words, lines
    )


def _format_location(line_range: LineRange) -> str:
    cell = "" if line_range.cell is None else f"cell {line_range.cell}, "
    name = f"{sanitise_line(line_range.unit)}, " if line_range.unit else ""
    lines = (
        f"line {line_range.first}"
        if line_range.first == line_range.last
        else f"lines {line_range.first}–{line_range.last}"
    )
    return f"{name}{cell}{lines}"


def _number_lines(said: str, line_range: LineRange) -> list[str]:
    """The lines with their numbers in the cell or the file."""
    lines = enumerate(said.split("\n"), line_range.first)
    return [f"{number:>4}  {sanitise(line)}" for number, line in lines]
