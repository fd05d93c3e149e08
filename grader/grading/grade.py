"""From one submission to its record: read, choose what to judge, load, judge, count points."""

import contextlib
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from exercises import Exercise
from grader import fault
from grader.batch.plan import VerdictCallback, check_all, ignore_verdict
from grader.grading import counterexample, evidence, explain, infer
from grader.grading.excerpts import SourceLocation, collect_excerpts
from grader.grading.infer import Target, TargetNotFound
from grader.reading import submission
from grader.reading.submission import Submission, UnreadableSubmission
from grader.report import points
from grader.report.points import Points
from grader.report.records import (
    Counterexample,
    DiagnosisRecord,
    ErrorRecord,
    Excerpt,
    NoteRecord,
    PropertyRecord,
    SubmissionRecord,
    shorten,
)
from grader.sandbox.grader_side.budget import BudgetExhausted
from grader.sandbox.grader_side.servers import SandboxError
from grader.sandbox.grader_side.session import ChildFactory, Session
from grader.sandbox.grader_side.subject import ChannelSubject
from grader.sandbox.limits import Limits
from grader.seed import Seed
from properties.case import Case
from properties.check import check_property
from properties.contract import Capability, Contract
from properties.families.values import it_equals_the_equation
from properties.harness.case_context import FLOAT32_NOTE
from properties.harness.harness import Harness
from properties.property import Property, Verdict
from properties.violation import Note, Status, SubmissionFailed

MAX_DEFINITIONS = 24
"""so many definitions of one file are judged: there are fewer exercises"""
MAX_LISTED = 8
"""so many of the others are named"""


@dataclass(frozen=True)
class Settings:
    """What is the same for every submission of a run."""

    exercise: Exercise | None = None
    limits: Limits = field(default_factory=Limits)
    limit_overrides: Mapping[str, float] = field(default_factory=dict)
    """limits that go before those of an exercise"""
    points: Points | None = None
    seed: Seed = field(default_factory=Seed)
    device: str = "cpu"
    by_hand: bool = False
    """whether torch's own attention is out of reach in every exercise that does not ask for it"""
    jobs: int | None = None
    """how many judge at the same time; as many as are worth it if nobody says"""

    def get_limits(self, exercise: Exercise | None) -> Limits:
        """What a submission to an exercise may use."""
        wanted = {} if exercise is None else exercise.limits
        return self.limits.with_overrides({**wanted, **self.limit_overrides})

    def is_by_hand(self, exercise: Exercise) -> bool:
        """Whether torch's own attention is out of reach in an exercise."""
        return (self.by_hand or exercise.by_hand) and not exercise.contract.has(Capability.FUSED)


def grade_file(
    server: ChildFactory, handed_in: Submission, settings: Settings
) -> list[SubmissionRecord]:
    """The records of one file, whatever happens: a class goes on where one file shows our fault.

    Nothing is said of that file but that; it has no verdict. Raises SandboxError.
    """
    try:
        return grade_file_or_raise(server, handed_in, settings)
    except SandboxError:
        raise
    except Exception as error:
        problem = ErrorRecord(fault.ERROR_KIND, fault.describe(error))
        return [_record_ungraded(handed_in, settings, time.monotonic(), problem)]


def grade_file_or_raise(
    server: ChildFactory, handed_in: Submission, settings: Settings
) -> list[SubmissionRecord]:
    """The records of one file: one for every definition in it that answers an exercise.

    Whatever is wrong with the file is in the record. Raises only what is our own fault.
    """
    began = time.monotonic()
    try:
        data = submission.read_submission(handed_in, settings.get_limits(settings.exercise).source)
    except UnreadableSubmission as problem:
        return [record_unreadable(handed_in, settings, str(problem))]
    session = Session(server, data, handed_in.kind, settings.get_limits(settings.exercise))
    with contextlib.closing(session):
        try:
            wanted = infer_exercise(session, handed_in, settings)
        except SubmissionFailed as failed:
            wanted = ErrorRecord("unreadable", failed.message, failed.cell, failed.line)
        if isinstance(wanted, ErrorRecord):
            shown = collect_excerpts(session, [(wanted.cell, wanted.line)])
            return [replace(_record_ungraded(handed_in, settings, began, wanted), source=shown)]
        records = [
            grade_definition(session, handed_in, target, settings)
            for target in wanted[:MAX_DEFINITIONS]
        ]
        if len(wanted) > MAX_DEFINITIONS:
            records.append(_record_left_out(handed_in, settings, wanted[MAX_DEFINITIONS:]))
    gc.collect()  # a bench and its trials hang together in circles, with all their tensors
    gc.freeze()  # what is left stays, and need not be looked at again after the next one
    return records


def infer_exercise(
    session: Session, handed_in: Submission, settings: Settings
) -> list[Target] | ErrorRecord:
    """What to judge in a submission, or why there is nothing."""
    outline = session.read_outline()
    found = infer.parse_outline(outline)
    try:
        return infer.choose_targets(found, settings.exercise, handed_in.name)
    except TargetNotFound as problem:
        return _explain_not_found(str(problem), outline)


def grade_definition(
    reading: Session,
    handed_in: Submission,
    target: Target,
    settings: Settings,
    on_verdict: VerdictCallback = ignore_verdict,
) -> SubmissionRecord:
    """The record of one definition; `watch` is told every verdict as soon as it is known.

    Raises only what is our own fault.
    """
    began = time.monotonic()
    session = reading.start_successor(
        settings.get_limits(target.exercise), by_hand=settings.is_by_hand(target.exercise)
    )
    contract = rename_contract(target.exercise.contract, target.name)
    with contextlib.closing(session):
        try:
            warnings = session.load(target.name, *(other.name for other in contract.transfer or ()))
            harness = Harness(ChannelSubject(session), contract)
            verdicts = check_properties(session, harness, target.exercise, settings, on_verdict)
            named = attach_hint(verdicts, warnings)
            told = session.repeat_if_killed(
                lambda: explain_failures(session, harness, target, settings, named)
            )
        except SubmissionFailed as failed:
            error = _explain_load_error(failed, target.name)
            shown = collect_excerpts(session, [(error.cell, error.line)])
            return replace(
                _record_ungraded(handed_in, settings, began, error, target), source=shown
            )
    said = [*([target.note] if target.note else []), *select_certain_notes(harness, verdicts)]
    return SubmissionRecord(
        file=handed_in.display_path,
        student=handed_in.student,
        exercise=target.exercise.slug,
        name=target.name,
        score=round(sum(p.points for p in told.properties), 6),
        max_score=round(sum(p.max_points for p in told.properties), 6),
        status=summarise_status(verdicts).value,
        seconds=time.monotonic() - began,
        properties=told.properties,
        notes=tuple(dict.fromkeys([*map(_record_warning, warnings), *map(record_note, said)])),
        diagnosis=told.diagnosis,
        source=told.source,
    )


@dataclass(frozen=True)
class _Explanation:
    """What is said of verdicts, as a record holds it."""

    properties: tuple[PropertyRecord, ...]
    diagnosis: tuple[DiagnosisRecord, ...]
    source: tuple[Excerpt, ...]


def explain_failures(
    session: Session,
    harness: Harness,
    target: Target,
    settings: Settings,
    verdicts: Sequence[Verdict],
) -> _Explanation:
    """Points, the mistakes, pictures and lines to look at. Raises SubmissionFailed."""
    with contextlib.suppress(SubmissionFailed):  # the verdicts stand, and are told
        if session.revive():
            harness.forget()
    properties = _record_properties(target.exercise, verdicts, settings.points, harness)
    found = explain.diagnose_failures(session, harness, verdicts, settings.device)
    named = explain.record_diagnoses(session, found)
    if session.is_alive:
        properties = evidence.attach_evidence(properties, verdicts, harness, found)
    shown = collect_excerpts(session, list_locations(verdicts, named))
    return _Explanation(tuple(properties), tuple(named), tuple(shown))


def select_certain_notes(harness: Harness, verdicts: Sequence[Verdict]) -> list[Note]:
    """The notes of a bench that hold whatever else is wrong.

    Only a right answer can be said to be as exact as float32: a wrong one may come near by chance.
    """
    right = all(v.status is Status.PASSED for v in verdicts if v.property is it_equals_the_equation)
    return [note for note in harness.notes.values() if right or note != FLOAT32_NOTE]


def list_locations(
    verdicts: Sequence[Verdict], named: Sequence[DiagnosisRecord]
) -> list[SourceLocation]:
    """Where in the code something is to be seen: the mistakes found, and what raised."""
    raised = [(v.failure.cell, v.failure.line) for v in verdicts if v.failure is not None]
    return [*((each.cell, each.line) for each in named), *raised]


def rename_contract(contract: Contract, name: str) -> Contract:
    """A contract with the name that this submission uses."""
    return replace(contract, name=name)


def check_properties(
    session: Session,
    harness: Harness,
    exercise: Exercise,
    settings: Settings,
    on_verdict: VerdictCallback = ignore_verdict,
) -> list[Verdict]:
    """Judge every claim in order."""

    def check_one(wanted: Property, cases: Sequence[Case]) -> Verdict:
        return session.repeat_if_killed(lambda: _check_revived(wanted, session, harness, cases))

    def restart() -> None:
        session.close()
        harness.forget()

    return check_all(
        harness, exercise, check_one, restart, settings.seed.value, settings.device, on_verdict
    )


def _check_revived(
    wanted: Property, session: Session, harness: Harness, cases: Sequence[Case]
) -> Verdict:
    """Judge one claim, in a fresh process if the last one is gone."""
    try:
        if session.revive():
            harness.forget()
    except SubmissionFailed as failure:  # no time is left, or loading it again did not work
        return Verdict(wanted, failure.status, failure=failure)
    return check_property(wanted, harness, cases)


def attach_hint(
    verdicts: Sequence[Verdict], warnings: Sequence[Mapping[str, Any]]
) -> list[Verdict]:
    """Verdicts whose first trouble carries the likeliest reason that reading the code found.

    A class that reads a notebook variable fails in many guises, and this is what they share.
    """
    reasons = [str(r["message"]) for r in warnings if r.get("kind") == "notebook_variable"]
    troubles = [
        i for i, v in enumerate(verdicts) if v.case is not None and v.message and not v.unsupported
    ]
    changed = list(verdicts)
    if reasons and troubles:
        changed[troubles[0]] = replace(changed[troubles[0]], hint=reasons[0])
    return changed


def summarise_status(verdicts: Sequence[Verdict]) -> Status:
    """One status for a submission: its first trouble in the order of the claims.

    Without one, that it passed, unless something could not be tried.
    """
    troubles = [v.status for v in verdicts if v.status not in (Status.PASSED, Status.NOT_TRIED)]
    if troubles:
        return troubles[0]
    return Status.NOT_TRIED if any(v.unsupported for v in verdicts) else Status.PASSED


def _record_properties(
    exercise: Exercise, verdicts: Sequence[Verdict], given: Points | None, harness: Harness
) -> list[PropertyRecord]:
    worth = points.distribute_points(exercise, given)
    earned = points.award_points(exercise, verdicts, given)
    return [
        PropertyRecord(
            name=verdict.property.name,
            claim=verdict.property.claim,
            group=verdict.property.group.value,
            status=verdict.status.value,
            points=got,
            max_points=worth[verdict.property],
            message=shorten(verdict.message),
            case=verdict.case_description or None,
            counterexample=_build_counterexample(verdict, harness),
            words=shorten(verdict.redacted_message),
            cell=verdict.failure.cell if verdict.failure else None,
            line=verdict.failure.line if verdict.failure else None,
        )
        for verdict, got in zip(verdicts, earned, strict=True)
    ]


def _build_counterexample(verdict: Verdict, harness: Harness) -> Counterexample | None:
    if verdict.case is None or verdict.violation is None:
        return None
    try:
        return counterexample.build_counterexample(harness.create_context(verdict.case))
    except SubmissionFailed:
        return None


def _record_warning(warning: Mapping[str, Any]) -> NoteRecord:
    cell, line = warning.get("cell"), warning.get("line")
    return NoteRecord(
        kind=str(warning.get("kind"))[:40],
        message=shorten(str(warning.get("message"))),
        cell=cell if isinstance(cell, int) else None,
        line=line if isinstance(line, int) else None,
    )


def _explain_not_found(problem: str, outline: Mapping[str, Any]) -> ErrorRecord:
    """Nothing to judge; if a cell is no Python, that is the likely reason."""
    for broken in outline.get("broken", ()):
        text = f"{broken['message']}; nothing in this cell can be used"
        return ErrorRecord("syntax", f"{text} ({problem})", broken["cell"], broken["line"])
    return ErrorRecord("not_found", problem)


def _explain_load_error(failed: SubmissionFailed, name: str) -> ErrorRecord:
    """Why a definition could not be made, in words that say what to do."""
    kind, _, rest = failed.message.partition(": ")
    if kind == "ModuleNotFoundError":
        module = rest.split("'")[1] if "'" in rest else rest
        text = f"`{name}` imports `{module}`, which is not installed where it is graded"
        return ErrorRecord("import", text, failed.cell, failed.line)
    text = f"`{name}` could not be loaded: {failed.message}"
    if isinstance(failed, BudgetExhausted):
        text = f"`{name}` was not judged, since all that a file may use was used: {failed.message}"
    return ErrorRecord(failed.status.value, text, failed.cell, failed.line)


def _record_left_out(
    handed_in: Submission, settings: Settings, left: Sequence[Target]
) -> SubmissionRecord:
    """One record for the definitions that are too many to be judged, so that a class can go on."""
    names = ", ".join(f"`{target.name}`" for target in left[:MAX_LISTED])
    more = f" and {len(left) - MAX_LISTED} more" if len(left) > MAX_LISTED else ""
    text = (
        f"{names}{more}: not judged, since of one file the first {MAX_DEFINITIONS} definitions "
        f"that answer an "
        "exercise are; hand in the others in files of their own"
    )
    began = time.monotonic()
    return _record_ungraded(handed_in, settings, began, ErrorRecord("too_many", text), left[0])


def record_unreadable(handed_in: Submission, settings: Settings, problem: str) -> SubmissionRecord:
    """The record of a file that cannot be taken."""
    error = ErrorRecord("unreadable", problem)
    return _record_ungraded(handed_in, settings, time.monotonic(), error)


def _record_ungraded(
    handed_in: Submission,
    settings: Settings,
    began: float,
    error: ErrorRecord,
    target: Target | None = None,
) -> SubmissionRecord:
    exercise = target.exercise if target else settings.exercise
    most = sum(points.distribute_points(exercise, settings.points).values()) if exercise else 0.0
    known = {status.value for status in Status}
    return SubmissionRecord(
        file=handed_in.display_path,
        student=handed_in.student,
        exercise=exercise.slug if exercise else None,
        name=target.name if target else handed_in.name,
        score=0.0,
        max_score=round(most, 6),
        status=error.kind if error.kind in known else Status.NOT_TRIED.value,
        seconds=time.monotonic() - began,
        error=replace(error, message=shorten(error.message)),
    )


def record_note(note: Note) -> NoteRecord:
    """A note of the examiner's, for the record."""
    return NoteRecord(note.kind, shorten(note.message), note.cell, note.line)
