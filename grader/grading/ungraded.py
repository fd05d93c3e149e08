"""Say why a file, or a definition, has no verdict."""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headcheck.exercises import Exercise
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.outcome import Outcome, list_resembling, list_unrecognised
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report import points
from headcheck.grader.report.records import (
    BUSY_KIND,
    NO_VERDICT_KINDS,
    NOT_JUDGED,
    ErrorRecord,
    NoteRecord,
    SubmissionRecord,
    shorten,
)
from headcheck.grader.sandbox.grader_side.budget import BudgetExhausted
from headcheck.properties.violations.violation import Status, SubmissionFailed

if TYPE_CHECKING:
    from headcheck.properties.binding.binding import NotBound

MAX_DEFINITIONS = 24
"""the maximum number of definitions that are graded in one file"""
MAX_LISTED = 8
"""the maximum number of further definitions that are named in a message"""
ATTENTION = re.compile("att(entio)?n", re.IGNORECASE)


def explain_not_found(problem: ErrorRecord, outline: Mapping[str, Any]) -> ErrorRecord:
    """Say why there is nothing to grade: a cell is not Python, or is never run."""
    for broken in outline.get("broken", ()):
        place = "file" if broken["cell"] is None else "cell"
        text = f"{broken['message']}; nothing in this {place} can be used ({problem.message})"
        return ErrorRecord("syntax", text, broken["cell"], broken["line"])
    for unread in outline.get("unread", ()):
        names = ", ".join(f"`{name}`" for name in unread["names"])
        text = f"{unread['where']}, which defines {names}, {unread['why']}"
        said = problem.message.removesuffix("; it defines nothing")
        return replace(problem, message=f"{said}; {text}", cell=unread["cell"], line=1)
    return problem


def explain_nothing(problem: ErrorRecord | None, outcomes: Sequence[Outcome]) -> ErrorRecord:
    """Say why none of a file's definitions is judged; there may be a problem without them."""
    unrecognised, resembling = list_unrecognised(outcomes, ()), list_resembling(outcomes)
    failed = ((o.name, o.recognition.failure) for o in outcomes if o.recognition is not None)
    name, failure = next((each for each in failed if each[1] is not None), ("", None))
    if failure is not None and not unrecognised:
        return explain_load_error(failure, name)
    problem = problem or _explain_resembling(resembling)
    return _explain_unrecognised(problem, unrecognised) if unrecognised else problem


def _explain_resembling(resembling: Mapping[str, Exercise]) -> ErrorRecord:
    """Say that a file answers no exercise, and which exercise its definitions were tried as."""
    if not resembling:
        return ErrorRecord("not_found", "nothing in it answers an exercise")
    tried = ", ".join(f"`{name}` is no {each.slug}" for name, each in resembling.items())
    text = f"{tried}, by its arguments, weights and results; to judge it as such, add --exercise"
    return ErrorRecord("not_found", text)


def _explain_unrecognised(problem: ErrorRecord, tried: "Mapping[str, NotBound]") -> ErrorRecord:
    """Extend an error's message: these classes compute no kind of attention that headcheck knows.

    Those with a fault come first.
    """
    ordered = sorted(tried, key=lambda name: not tried[name].fault)
    listed = ", ".join(f"`{name}` ({tried[name].tried})" for name in ordered[:MAX_LISTED])
    text = f"{problem.message}; not recognised as attention by what it computes: {listed}"
    return replace(problem, message=text)


def note_unjudged(tried: "Mapping[str, NotBound]", shown: Collection[str]) -> list[NoteRecord]:
    """Say why classes are not judged: those at fault, those to show, and those named attention."""
    said = {
        name: f"it {each.fault}" if each.fault else f"it is not recognised: {each.tried}"
        for name, each in tried.items()
        if each.fault or name in shown or ATTENTION.search(name)
    }
    texts = (f"`{name}` is not judged: {why}" for name, why in list(said.items())[:MAX_LISTED])
    return [NoteRecord("unjudged", shorten(text)) for text in texts]


def explain_load_error(failed: SubmissionFailed, name: str) -> ErrorRecord:
    """Say why a definition could not be loaded, and what the student can do."""
    kind, _, rest = failed.message.partition(": ")
    if kind == "ModuleNotFoundError":
        return ErrorRecord("import", f"`{name}` {rest}", failed.cell, failed.line)
    reason, status = "could not be loaded", failed.status
    if isinstance(failed, BudgetExhausted):
        reason = "was not judged, because the file has used up its limits"
        status = Status.TIMED_OUT if status is Status.NOT_ASKED else status
    because = f". {failed.crash}" if failed.crash else ""
    text = f"`{name}` {reason}: {failed.message}{because}"
    return ErrorRecord(status.value, text, failed.cell, failed.line)


def record_left_out(
    submission: Submission, settings: Settings, left: Sequence[Target]
) -> SubmissionRecord:
    """Return one record for the definitions of a file beyond the limit."""
    names = ", ".join(f"`{target.name}`" for target in left[:MAX_LISTED])
    more = f" and {len(left) - MAX_LISTED} more" if len(left) > MAX_LISTED else ""
    text = (
        f"{names}{more}: not judged, since headcheck judges the first {MAX_DEFINITIONS} "
        "definitions of a file that answer an exercise; hand in the others in separate files"
    )
    began = time.monotonic()
    return record_ungraded(submission, settings, began, ErrorRecord("too_many", text), left[0])


def record_unreadable(submission: Submission, settings: Settings, problem: str) -> SubmissionRecord:
    """Return the record of a file that cannot be read."""
    error = ErrorRecord("unreadable", problem)
    return record_ungraded(submission, settings, time.monotonic(), error)


def record_ungraded(
    submission: Submission,
    settings: Settings,
    began: float,
    error: ErrorRecord,
    target: Target | None = None,
) -> SubmissionRecord:
    """Return the record of a file, or of a definition, that could not be judged."""
    exercise = target.exercise if target else settings.exercise
    most = points.compute_maximum(exercise, settings.points) if exercise else 0.0
    return SubmissionRecord(
        file=submission.display_path,
        student=submission.student,
        exercise=exercise.slug if exercise else None,
        name=target.name if target else submission.name,
        score=0.0,
        max_score=most,
        status=_choose_status(error.kind),
        seconds=time.monotonic() - began,
        error=replace(error, message=shorten(error.message)),
    )


def _choose_status(kind: str) -> str:
    """Return the status of a submission that an error of this kind kept from being judged."""
    if kind in NO_VERDICT_KINDS:
        return NOT_JUDGED
    return kind if kind in {status.value for status in Status} else Status.NOT_TRIED.value


def record_busy(submission: Submission, settings: Settings, why: str) -> SubmissionRecord:
    """Return the record of a file without a verdict because of a busy machine."""
    text = f"not judged: the machine was busy ({why}); give the same command again"
    return record_ungraded(submission, settings, time.monotonic(), ErrorRecord(BUSY_KIND, text))
