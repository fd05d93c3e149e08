"""A report as plain text, for a terminal, a log or a mail."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from grader.report.pictures.captions import describe_evidence
from grader.report.records import Report
from grader.report.render.sanitise import sanitise_line
from grader.report.render.view import (
    DiagnosisView,
    FailureView,
    GroupView,
    MessageView,
    SubmissionView,
    describe_cases,
    make_view,
    tally_statuses,
)
from properties.violation import Status

STYLES = {"expected": "green", "got     ": "red", "hint    ": "cyan"}
"""of the lines of a message, by how they begin"""
FILE_COLUMN_WIDTH = 48
"""how wide the column of files in the last table may become; of longer ones the end is shown"""


@dataclass(frozen=True, slots=True)
class StyledLine:
    """One line, and how a terminal with colours shows it."""

    text: str
    style: str = ""


def render(report: Report) -> str:
    """What a student or an instructor reads.

    Only headlines and the last table begin at the left edge, and both are one line each, so that
    nothing that a submission says can pass for a verdict.
    """
    return "".join(f"{line.text}\n" for line in _iter_lines(report))


def print_to(console: Console, report: Report) -> None:
    """The same, with colours where the console has them."""
    text = Text()
    for line in _iter_lines(report):
        text.append(line.text, line.style)
        text.append("\n")
    console.print(text, end="", soft_wrap=True, highlight=False, emoji=False)


def _iter_lines(report: Report) -> Iterator[StyledLine]:
    views = [make_view(record) for record in report.submissions]
    if not views:
        yield StyledLine("Nothing was graded.")
    for i, shown in enumerate(views):
        if i:
            yield StyledLine("")
        yield from _render_submission(shown)
    if len(views) > 1:
        yield StyledLine("")
        yield from _render_table(views)
        yield StyledLine("")
        yield StyledLine(tally_statuses([shown.status for shown in views]))
    if report.sandbox is not None:
        yield StyledLine("")
        yield StyledLine(f"sandbox: {sanitise_line(report.sandbox.summary)}")
    if report.seed is not None:
        yield StyledLine(f"cases: {describe_cases(report.seed)}")


def _render_submission(shown: SubmissionView) -> Iterator[StyledLine]:
    headline = f"{shown.file}  {shown.target}  {shown.score}  {shown.status}"
    yield StyledLine(headline, f"bold {_choose_colour(shown.status)}")
    if shown.error:
        yield from _render_message("error", shown.error, "red")
    if shown.diagnosis:
        yield StyledLine("")
        yield from _render_diagnosis(shown.diagnosis)
    if shown.failures:
        yield StyledLine("")
        yield from _render_groups(shown.groups)
    for failure in shown.failures:
        yield StyledLine("")
        yield from _render_failure(failure)
    if shown.failures and shown.summary:
        yield StyledLine("")
    for sentence in shown.summary:
        yield from _indent(2, sentence)
    if shown.failures and shown.notes:
        yield StyledLine("")
    for note in shown.notes:
        yield from _render_message("note", note, "")


def _render_diagnosis(found: DiagnosisView) -> Iterator[StyledLine]:
    yield StyledLine(f"  {found.headline}", "bold")
    for sentence in found.sentences:
        yield from _indent(4, sentence)


def _render_groups(groups: Sequence[GroupView]) -> Iterator[StyledLine]:
    rows = [(g.name, g.score, f"{len(g.passed)} of {g.total} claims") for g in groups]
    for group, row in zip(groups, align_columns(rows), strict=True):
        yield StyledLine(
            f"  {row}", "" if group.status == Status.PASSED else _choose_colour(group.status)
        )


def _render_failure(failure: FailureView) -> Iterator[StyledLine]:
    yield StyledLine(f"  {failure.claim}", "bold")
    for line in _indent(4, failure.details or failure.status):
        yield replace(line, style=STYLES.get(line.text[4:12], ""))
    if failure.case:
        yield from _indent(4, f"on        {failure.case}")
    for sentence in describe_evidence(failure.evidence)[:1] if failure.evidence else ():
        yield StyledLine(f"    seen      {sentence}")
    if failure.alike:
        claims = "claims" if failure.alike > 1 else "claim"
        yield StyledLine(f"    {failure.alike} more {claims} ended the same way")


def _render_message(label: str, entry: MessageView, style: str) -> Iterator[StyledLine]:
    first, *rest = entry.message.expandtabs(4).split("\n")
    yield StyledLine(f"  {label:<6}{first}", style)
    yield from (StyledLine(f"        {line}", style) for line in rest)


def _indent(by: int, text: str) -> Iterator[StyledLine]:
    for line in text.expandtabs(4).split("\n"):
        yield StyledLine(" " * by + line)


def _render_table(views: Sequence[SubmissionView]) -> Iterator[StyledLine]:
    head = ("file", "exercise", "score", "status")
    rows = [
        (_truncate_left(shown.file), shown.exercise, shown.score, shown.status) for shown in views
    ]
    first, *others = align_columns([head, *rows])
    yield StyledLine(first, "bold")
    for shown, row in zip(views, others, strict=True):
        yield StyledLine(row, _choose_colour(shown.status))


def _truncate_left(file: str) -> str:
    if cell_len(file) <= FILE_COLUMN_WIDTH:
        return file
    while cell_len(file) >= FILE_COLUMN_WIDTH:
        file = file[1:]
    return f"…{file}"


def align_columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows with their columns below each other, counted in the cells of a terminal."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _choose_colour(status: str) -> str:
    if status == Status.PASSED:
        return "green"
    return "yellow" if status == "not tried" else "red"
