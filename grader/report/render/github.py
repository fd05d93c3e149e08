"""A report as commands of a GitHub workflow: annotations beside the lines, then the text.

A log is read for commands line by line, so that nothing a submission says may begin a line with
`::`, nor have `##[` in it anywhere: `harmless` sees to that, and the commands' own values are
escaped here.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grader.report.records import PropertyRecord, Report, SubmissionRecord
from grader.report.render import text
from grader.report.render.sanitise import sanitise, sanitise_line
from grader.report.render.view import FailureView, make_view, tally_statuses

MAX_ERRORS = 10
"""how many errors of one step are shown beside the files"""
LineLookup = Callable[[SubmissionRecord, int, int], int | None]
"""the line of a notebook's file that holds a line of a cell, if that can be told"""


@dataclass(frozen=True, slots=True)
class Annotation:
    """Something wrong, and where."""

    title: str
    message: str
    cell: int | None = None
    line: int | None = None


def render(report: Report, line_of: LineLookup) -> str:
    """The most important findings of every submission as errors, a notice, and the whole text.

    GitHub shows only so many errors of a step. So the first finding of every submission goes before
    the second of any, and what is left over is in the text.
    """
    rows = [
        [(record, each) for each in collect_annotations(record)] for record in report.submissions
    ]
    order = [f for rank in itertools.zip_longest(*rows) for f in rank if f is not None]
    lines = [format_error(record, found, line_of) for record, found in order[:MAX_ERRORS]]
    notice = format_command(
        "notice", _summarise(report, len(order) - MAX_ERRORS), title="headcheck"
    )
    return "".join(f"{line}\n" for line in (*lines, notice)) + text.render(report)


def collect_annotations(record: SubmissionRecord) -> Iterator[Annotation]:
    """What is wrong with a submission, the most telling first: errors, mistakes, claims."""
    shown = make_view(record)
    if record.error is not None and shown.error is not None:
        title = f"It could not be judged: {shown.error.kind}"
        yield Annotation(title, shown.error.message, record.error.cell, record.error.line)
    if shown.diagnosis is not None:
        for found, sentence in zip(record.diagnosis, shown.diagnosis.sentences, strict=True):
            yield Annotation("The mistake", sentence, found.cell, found.line)
    claims = {sanitise_line(claim.claim): claim for claim in record.properties}
    for trouble in shown.failures:
        yield _annotate_property(trouble, claims[trouble.claim])


def _annotate_property(trouble: FailureView, claim: PropertyRecord) -> Annotation:
    case = [f"on        {trouble.case}"] if trouble.case else []
    message = "\n".join([trouble.details or trouble.status, *case])
    return Annotation(trouble.claim, message, claim.cell, claim.line)


def format_error(record: SubmissionRecord, found: Annotation, line_of: LineLookup) -> str:
    """The command that shows a finding beside its line; without a line, at the top of the file."""
    line = found.line
    if line is not None and found.cell is not None:
        line = line_of(record, found.cell, line)
    at = {} if line is None else {"line": str(line)}
    return format_command("error", found.message, file=record.file, **at, title=found.title)


def _summarise(report: Report, left: int) -> str:
    more = f"; {left} more findings are in the log" if left > 0 else ""
    if len(report.submissions) == 1:
        shown = make_view(report.submissions[0])
        return f"{shown.file}: {shown.score}, {shown.status}{more}"
    return tally_statuses([record.status for record in report.submissions]) + more


def format_command(name: str, message: str, **properties: str) -> str:
    """A workflow command in one line, with its values escaped."""
    given = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{name}{' ' if given else ''}{given}::{_escape_data(sanitise(message))}"


def _escape_data(clean: str) -> str:
    return clean.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(value: str) -> str:
    return _escape_data(sanitise_line(value)).replace(":", "%3A").replace(",", "%2C")
