"""Describe the outcome of a submission in a sentence or two, for gradebooks and groups."""

from headcheck.grader.report.records import PropertyRecord, SubmissionRecord
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.sentences import describe_repair, describe_untried
from headcheck.properties.violations.violation import (
    HEADINGS,
    NOT_FAILED,
    STATUS_MESSAGES,
    UNKNOWN,
    Status,
    format_location,
)

ENDINGS = {
    Status.CRASHED: "It crashed",
    Status.TIMED_OUT: "It timed out",
    Status.OUT_OF_MEMORY: "It ran out of memory",
}
"""the statuses of a submission that gave no answer, each with the beginning of a sentence"""

SLIP = "It stops, and one change repairs it."
"""why an answer with a slip gave no answer, if the change is not disclosed"""


def describe_outcome(record: SubmissionRecord) -> tuple[str, ...]:
    """Return sentences that say why a submission lost points; none if every property holds.

    They reveal no more than the record, which may be redacted.
    """
    if record.error is not None:
        at = format_location(record.error.cell, record.error.line)
        return (f"{sanitise(record.error.message)}{at}",)
    repaired = describe_repair(record.repair)
    if record.diagnosis:
        said = (sanitise(each.sentence) for each in record.diagnosis)
        return (*repaired, *said)
    failure = find_first_failure(record)
    if repaired:
        return (*repaired, *(() if failure is None else (_describe_failure(failure),)))
    if failure is None:
        untried = describe_untried(record.properties)
        return untried if record.status in UNKNOWN else ()
    if _gave_no_answer(record, failure):
        return (describe_ending(failure),)
    return (_describe_failure(failure),)


def find_first_failure(record: SubmissionRecord) -> PropertyRecord | None:
    """Return the first property that fails, or on which the submission gave no answer."""
    return next((p for p in record.properties if p.status not in NOT_FAILED), None)


def name_ending(record: SubmissionRecord) -> str:
    """Return why a submission gave no answer, in words that are the same for all students.

    The text is empty if the submission gave an answer.
    """
    if record.error is not None:
        return sanitise_line(record.error.message)
    if record.repair is not None:
        return "" if record.repair.after else SLIP
    failure = find_first_failure(record)
    if record.diagnosis or failure is None or not _gave_no_answer(record, failure):
        return ""
    start = ENDINGS[Status(failure.status)]
    if failure.status != Status.CRASHED:
        return f"{start}."
    # The words have nothing of the case, so they are the same for everybody.
    got, because = _find_row(failure.words, "got"), _find_row(failure.words, "because")
    reason = because or got.partition(" (")[0]
    return f"{start}: {sanitise_line(reason)}" if reason else f"{start}."


def _gave_no_answer(record: SubmissionRecord, failure: PropertyRecord) -> bool:
    """Whether the submission and its first failure both ended without an answer."""
    return record.status in ENDINGS and failure.status in ENDINGS


def describe_ending(failure: PropertyRecord) -> str:
    """Return how a call ended in which a submission gave no answer."""
    start = ENDINGS[Status(failure.status)]
    got, because = _find_row(failure.message, "got"), _find_row(failure.message, "because")
    if not got or got == STATUS_MESSAGES.get(Status(failure.status)):
        return f"{start}."
    ended = f"{start}: {got}"
    return sanitise(f"{ended}. {because}" if because else ended)


def _describe_failure(failure: PropertyRecord) -> str:
    rows = ((label, _find_row(failure.message, label)) for label in ("expected", "got"))
    details = "".join(f" {label.capitalize()}: {row}." for label, row in rows if row)
    return sanitise(f"{read_heading(failure.status, failure.claim)}{details}")


def read_heading(status: str, claim: str) -> str:
    """Return the outcome of a check and its claim."""
    heading = HEADINGS.get(status)
    return f"{heading}: {claim}" if heading and claim else claim


def _find_row(message: str, label: str) -> str:
    """Return the text of a message's row with this label; empty if it has no such row."""
    start = f"  {label:<9} "
    lines = (line for line in message.split("\n") if line.startswith(start))
    return next(lines, "").removeprefix(start).strip()
