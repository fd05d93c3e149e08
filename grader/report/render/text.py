"""A report as plain text, for a terminal, a log or a mail."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from grader.report.pictures.captions import sentences
from grader.report.records import Report
from grader.report.render.sanitise import one_line
from grader.report.render.view import (
    Diagnosis,
    Group,
    Remark,
    Trouble,
    View,
    cases,
    tally,
    view,
)
from properties.violation import Status

STYLES = {"expected": "green", "got     ": "red", "hint    ": "cyan"}
"""of the lines of a message, by how they begin"""
FILE = 48
"""how wide the column of files in the last table may become; of longer ones the end is shown"""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and how a terminal with colours shows it."""

    text: str
    style: str = ""


def render(report: Report) -> str:
    """What a student or an instructor reads.

    Only headlines and the last table begin at the left edge, and both are one line each, so that
    nothing that a submission says can pass for a verdict.
    """
    return "".join(f"{line.text}\n" for line in _lines(report))


def print_to(console: Console, report: Report) -> None:
    """The same, with colours where the console has them."""
    text = Text()
    for line in _lines(report):
        text.append(line.text, line.style)
        text.append("\n")
    console.print(text, end="", soft_wrap=True, highlight=False, emoji=False)


def _lines(report: Report) -> Iterator[Line]:
    views = [view(record) for record in report.submissions]
    if not views:
        yield Line("Nothing was graded.")
    for i, shown in enumerate(views):
        if i:
            yield Line("")
        yield from _submission(shown)
    if len(views) > 1:
        yield Line("")
        yield from _table(views)
        yield Line("")
        yield Line(tally([shown.status for shown in views]))
    if report.sandbox is not None:
        yield Line("")
        yield Line(f"sandbox: {one_line(report.sandbox.summary)}")
    if report.seed is not None:
        yield Line(f"cases: {cases(report.seed)}")


def _submission(shown: View) -> Iterator[Line]:
    headline = f"{shown.file}  {shown.answers}  {shown.score}  {shown.status}"
    yield Line(headline, f"bold {_colour(shown.status)}")
    if shown.error:
        yield from _remark("error", shown.error, "red")
    if shown.diagnosis:
        yield Line("")
        yield from _diagnosis(shown.diagnosis)
    if shown.troubles:
        yield Line("")
        yield from _by_group(shown.groups)
    for trouble in shown.troubles:
        yield Line("")
        yield from _trouble(trouble)
    if shown.troubles and shown.summary:
        yield Line("")
    for sentence in shown.summary:
        yield from _indented(2, sentence)
    if shown.troubles and shown.notes:
        yield Line("")
    for note in shown.notes:
        yield from _remark("note", note, "")


def _diagnosis(found: Diagnosis) -> Iterator[Line]:
    yield Line(f"  {found.headline}", "bold")
    for sentence in found.sentences:
        yield from _indented(4, sentence)


def _by_group(groups: Sequence[Group]) -> Iterator[Line]:
    rows = [(g.name, g.score, f"{len(g.passed)} of {g.total} claims") for g in groups]
    for group, row in zip(groups, aligned(rows), strict=True):
        yield Line(f"  {row}", "" if group.status == Status.PASSED else _colour(group.status))


def _trouble(trouble: Trouble) -> Iterator[Line]:
    yield Line(f"  {trouble.claim}", "bold")
    for line in _indented(4, trouble.details or trouble.status):
        yield replace(line, style=STYLES.get(line.text[4:12], ""))
    if trouble.case:
        yield from _indented(4, f"on        {trouble.case}")
    for sentence in sentences(trouble.evidence)[:1] if trouble.evidence else ():
        yield Line(f"    seen      {sentence}")
    if trouble.alike:
        claims = "claims" if trouble.alike > 1 else "claim"
        yield Line(f"    {trouble.alike} more {claims} ended the same way")


def _remark(label: str, remark: Remark, style: str) -> Iterator[Line]:
    first, *rest = remark.message.expandtabs(4).split("\n")
    yield Line(f"  {label:<6}{first}", style)
    yield from (Line(f"        {line}", style) for line in rest)


def _indented(by: int, text: str) -> Iterator[Line]:
    for line in text.expandtabs(4).split("\n"):
        yield Line(" " * by + line)


def _table(views: Sequence[View]) -> Iterator[Line]:
    head = ("file", "exercise", "score", "status")
    rows = [(_end(shown.file), shown.exercise, shown.score, shown.status) for shown in views]
    first, *others = aligned([head, *rows])
    yield Line(first, "bold")
    for shown, row in zip(views, others, strict=True):
        yield Line(row, _colour(shown.status))


def _end(file: str) -> str:
    if cell_len(file) <= FILE:
        return file
    while cell_len(file) >= FILE:
        file = file[1:]
    return f"…{file}"


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows with their columns below each other, counted in the cells of a terminal."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _colour(status: str) -> str:
    if status == Status.PASSED:
        return "green"
    return "yellow" if status == "not tried" else "red"
