"""The parts of a text: mistakes, groups with their points, failures, messages, and grades."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat, zip_longest

from rich.cells import cell_len

from headcheck.grader.report.pictures.captions import describe_seen
from headcheck.grader.report.records import ExampleRecord
from headcheck.grader.report.render.diagnosis_view import DiagnosisView, name_columns
from headcheck.grader.report.render.lines import (
    StyledLine,
    align_columns,
    align_numbers,
    count_rows,
    indent,
    list_items,
)
from headcheck.grader.report.render.view import LABELS
from headcheck.grader.report.render.views import FailureView, GroupView, MessageView, SubmissionView
from headcheck.properties.counting import count
from headcheck.properties.violations.violation import Status

STYLES = {"expected": "green", "got": "red", "hint": "cyan"}
"""styles of the lines of a message, by their labels"""
FILE_COLUMN_WIDTH = 48
"""the largest width of the file column in the last table; longer names are cut on the left"""
UNJUDGED = ("not tried", "not asked", "not judged")
"""the statuses that do not count against a submission"""


def render_diagnosis(diagnosis: DiagnosisView, *, examples: bool) -> Iterator[StyledLine]:
    """Render the mistakes that were found, each with its example."""
    yield StyledLine(f"  {diagnosis.headline}", "bold")
    told = diagnosis.sentences, diagnosis.examples, diagnosis.reasons
    for sentence, example, reason in zip_longest(*told):
        yield from indent(4, sentence)
        yield from indent(4, reason) if reason else ()
        if examples and example is not None:
            yield from _render_example(example)


def _render_example(example: ExampleRecord) -> Iterator[StyledLine]:
    """Render matrices side by side, below their titles."""
    heads = name_columns(example)
    matrices = (example.before, example.right, example.wrong)
    numbers = list(zip(*map(align_numbers, matrices), strict=True))
    table = align_columns([heads, *numbers], gap=4)
    if count_rows([StyledLine(f"      {table[0]}")]) > 1:  # what is wrong is the same thing
        table = align_columns([(*heads[:2], "with this mistake"), *numbers], gap=4)
    yield from indent(6, f"For example, {example.sizes}:")
    for row in table:
        yield StyledLine(f"      {row}")


def render_groups(groups: Sequence[GroupView]) -> Iterator[StyledLine]:
    """Render the score of every group, and how many of its checks passed."""
    rows = [(g.name, g.score, f"{len(g.passed)} of {count(g.total, 'check')}") for g in groups]
    for group, row in zip(groups, align_columns(rows), strict=True):
        yield StyledLine(
            f"  {row}", "" if group.status == Status.PASSED else choose_colour(group.status)
        )


def render_points(groups: Sequence[GroupView], untried: int) -> Iterator[StyledLine]:
    """Render the points of groups with failed checks, then the names of the others.

    The number of untried checks is added if no sentence states it.
    """
    broken = [group for group in groups if group.status != Status.PASSED]
    whole = [group.name for group in groups if group not in broken]
    if broken:
        named = ", ".join(f"{group.name} {group.score}" for group in broken)
        counted = f"; {count(untried, 'check')} not tried" if untried else ""
        yield from list_items(f"points: {named}{counted}".split(", "), "red")
    if whole:
        yield from list_items([f"all checks pass: {whole[0]}", *whole[1:]], "green")


def render_failure(failure: FailureView) -> Iterator[StyledLine]:
    """Render the message of a failed check, and the case on which it failed."""
    yield StyledLine(f"  {failure.heading}", "bold")
    styles = {label: STYLES.get(label, "") for label in LABELS}
    for line in indent(4, failure.details or failure.status):
        label = line.text[4:14].strip()
        hang = 14 if label in styles else 0
        yield replace(line, style=styles.get(label, ""), hang=hang)
    if failure.case:
        yield from (replace(line, hang=14) for line in indent(4, f"{'on':<10}{failure.case}"))
    if failure.evidence and (seen := describe_seen(failure.evidence, failure.case)):
        yield StyledLine(f"    {'seen':<10}{seen}", hang=14)
    labels = chain(["printed"], repeat(""))
    for text, label in zip(failure.printed, labels, strict=False):
        yield StyledLine(f"    {label:<9} {text}".rstrip(), hang=14)
    if failure.alike:
        yield StyledLine(f"    {count(failure.alike, 'more check')} ended the same way")


def render_message(
    label: str, entry: MessageView, style: str = "", hang: int = 0
) -> Iterator[StyledLine]:
    """Render an error or a note behind its label."""
    first, *rest = entry.message.expandtabs(4).split("\n")
    yield StyledLine(f"  {label:<5} {first}", style, hang)
    yield from (StyledLine(f"        {line}", style) for line in rest)


def render_table(views: Sequence[SubmissionView]) -> Iterator[StyledLine]:
    """Render the table of grades."""
    head = ("file", "exercise", "score", "status")
    rows = [(_truncate_left(view.file), view.exercise, view.score, view.status) for view in views]
    first, *others = align_columns([head, *rows])
    yield StyledLine(first, "bold")
    for view, row in zip(views, others, strict=True):
        yield StyledLine(row, choose_colour(view.status))


def _truncate_left(file: str) -> str:
    if cell_len(file) <= FILE_COLUMN_WIDTH:
        return file
    while cell_len(file) >= FILE_COLUMN_WIDTH:
        file = file[1:]
    return f"…{file}"


def choose_colour(status: str) -> str:
    """Return the colour of a status."""
    if status == Status.PASSED:
        return "green"
    return "yellow" if status in UNJUDGED else "red"
