"""A report as GitHub workflow commands: annotations next to the lines, then the text.

GitHub looks for commands in every line of a log, so text from a submission must not begin a line
with `::`, nor contain `##[`: `sanitise` prevents both, and the values of the commands are escaped
here.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headcheck.grader.report.records import Report, SubmissionRecord
from headcheck.grader.report.render import text
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.view import make_view, tally_statuses

MAX_ERRORS = 10
"""the number of errors in one step that GitHub displays next to the files"""
LineLookup = Callable[[SubmissionRecord, int, int], int | None]
"""maps a line of a notebook's cell to the line of the file, or None if unknown"""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A finding and its location."""

    title: str
    message: str
    cell: int | None = None
    line: int | None = None


def render(report: Report, line_of: LineLookup) -> str:
    """Render the most important findings as errors, a notice, and the whole text.

    GitHub displays only a limited number of errors per step, so the first finding of every
    submission comes before the second finding of any. The text holds the remaining findings.
    """
    rows = [
        [(record, each) for each in collect_annotations(record)] for record in report.submissions
    ]
    order = [f for rank in itertools.zip_longest(*rows) for f in rank if f is not None]
    lines = [format_error(record, each, line_of) for record, each in order[:MAX_ERRORS]]
    summary = _summarise(report, len(order) - MAX_ERRORS)
    notice = format_command("notice", summary, title="headcheck")
    return "".join(f"{line}\n" for line in (*lines, notice)) + text.render(report)


def collect_annotations(record: SubmissionRecord) -> Iterator[Annotation]:
    """Yield the findings on a submission, the most telling first: errors, mistakes, properties.

    Consequences of the mistakes come last.
    """
    view = make_view(record)
    if record.error is not None and view.error is not None:
        kind = view.error.kind
        title = f"It could not be judged: {kind}"
        yield Annotation(title, view.error.message, record.error.cell, record.error.line)
    if record.repair is not None:
        stopped = " ".join(view.repair)
        yield Annotation("It stops here", stopped, record.repair.cell, record.repair.line)
    if view.diagnosis is not None:
        for mistake, sentence in zip(record.diagnosis, view.diagnosis.sentences, strict=True):
            yield Annotation("The mistake", sentence, mistake.cell, mistake.line)
    if view.place is not None and record.place is not None:
        told = record.place.proved, *record.diagnosis[:1]
        cell, line = next(((at.cell, at.line) for at in told if at is not None), (None, None))
        yield Annotation("Where it goes wrong", view.place.sentence, cell, line)
    by_claim = {sanitise_line(prop.claim): prop for prop in record.properties}
    for failure in (*view.others, *view.consequences):
        prop = by_claim[failure.claim]
        case = f"\n{'on':<10}{failure.case}" if failure.case else ""
        message = (failure.details or failure.status) + case
        yield Annotation(failure.heading, message, prop.cell, prop.line)


def format_error(record: SubmissionRecord, annotation: Annotation, line_of: LineLookup) -> str:
    """Format the error command that annotates a line or, without a line, the top of the file."""
    line = annotation.line
    if line is not None and annotation.cell is not None:
        line = line_of(record, annotation.cell, line)
    at = {} if line is None else {"line": str(line)}
    return format_command(
        "error", annotation.message, file=record.file, **at, title=annotation.title
    )


def _summarise(report: Report, left: int) -> str:
    more = f"; {left} more findings are in the log" if left > 0 else ""
    if len(report.submissions) == 1:
        view = make_view(report.submissions[0])
        return f"{view.file}: {view.score}, {view.status}{more}"
    return tally_statuses([record.status for record in report.submissions]) + more


def format_command(name: str, message: str, **properties: str) -> str:
    """Format a workflow command in one line, with its values escaped."""
    pairs = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{name}{' ' if pairs else ''}{pairs}::{_escape_data(sanitise(message))}"


def _escape_data(clean: str) -> str:
    return clean.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(value: str) -> str:
    return _escape_data(sanitise_line(value)).replace(":", "%3A").replace(",", "%2C")
