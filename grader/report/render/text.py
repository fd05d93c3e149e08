"""A report as plain text, for a terminal, a log or an e-mail."""

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
"""styles of the lines of a message, by their first characters"""
FILE_COLUMN_WIDTH = 48
"""the maximal width of the file column in the last table; longer names are cut on the left"""


@dataclass(frozen=True, slots=True)
class StyledLine:
    """One line, and its style on a terminal with colours."""

    text: str
    style: str = ""


def render(report: Report) -> str:
    """Render the text that a student or an instructor reads.

    Only headlines and rows of the last table begin at the left edge, and each is a single line, so
    that no text from a submission can be mistaken for a verdict.
    """
    return "".join(f"{line.text}\n" for line in _iter_lines(report))


def print_to(console: Console, report: Report) -> None:
    """Print the same text, with colours if the console has them."""
    text = Text()
    for line in _iter_lines(report):
        text.append(line.text, line.style)
        text.append("\n")
    console.print(text, end="", soft_wrap=True, highlight=False, emoji=False)


def _iter_lines(report: Report) -> Iterator[StyledLine]:
    views = [make_view(record) for record in report.submissions]
    if not views:
        yield StyledLine("Nothing was graded.")
    for i, view in enumerate(views):
        if i:
            yield StyledLine("")
        yield from _render_submission(view)
    if len(views) > 1:
        yield StyledLine("")
        yield from _render_table(views)
        yield StyledLine("")
        yield StyledLine(tally_statuses([view.status for view in views]))
    if report.sandbox is not None:
        yield StyledLine("")
        yield StyledLine(f"sandbox: {sanitise_line(report.sandbox.summary)}")
    if report.seed is not None:
        yield StyledLine(f"cases: {describe_cases(report.seed)}")


def _render_submission(view: SubmissionView) -> Iterator[StyledLine]:
    headline = f"{view.file}  {view.target}  {view.score}  {view.status}"
    yield StyledLine(headline, f"bold {_choose_colour(view.status)}")
    if view.error:
        yield from _render_message("error", view.error, "red")
    if view.diagnosis:
        yield StyledLine("")
        yield from _render_diagnosis(view.diagnosis)
    if view.failures:
        yield StyledLine("")
        yield from _render_groups(view.groups)
    for failure in view.failures:
        yield StyledLine("")
        yield from _render_failure(failure)
    if view.failures and view.summary:
        yield StyledLine("")
    for sentence in view.summary:
        yield from _indent(2, sentence)
    if view.failures and view.notes:
        yield StyledLine("")
    for note in view.notes:
        yield from _render_message("note", note, "")


def _render_diagnosis(diagnosis: DiagnosisView) -> Iterator[StyledLine]:
    yield StyledLine(f"  {diagnosis.headline}", "bold")
    for sentence in diagnosis.sentences:
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
    rows = [(_truncate_left(view.file), view.exercise, view.score, view.status) for view in views]
    first, *others = align_columns([head, *rows])
    yield StyledLine(first, "bold")
    for view, row in zip(views, others, strict=True):
        yield StyledLine(row, _choose_colour(view.status))


def _truncate_left(file: str) -> str:
    if cell_len(file) <= FILE_COLUMN_WIDTH:
        return file
    while cell_len(file) >= FILE_COLUMN_WIDTH:
        file = file[1:]
    return f"…{file}"


def align_columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Align the columns of the rows, measured in terminal cells."""
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
