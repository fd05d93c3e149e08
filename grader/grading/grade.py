"""Grade one file: the middle of find, infer, check, explain, report.

`grader.run.grade_paths` finds the files and reports on all records. In between, for each file:

1. infer: `infer_targets` reads the outline and chooses definitions and their exercises.
2. check: `check_all` gives a verdict on every property, from batches or by a `LiveChecker`;
   `search_further` tries generated cases, if that is asked for.
3. explain: `explain_failures` counts points, names mistakes, and takes evidence and excerpts.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from exercises import Exercise
from grader import fault
from grader.batch.check import check_all
from grader.grading import counterexample, evidence, explain, infer
from grader.grading.excerpts import SourceLocation, collect_excerpts
from grader.grading.infer import Target, TargetNotFound
from grader.grading.search import (
    DroppingChannel,
    SearchCallback,
    SearchResult,
    ignore_search,
    reduce_case,
    search,
)
from grader.grading.search_limit import SearchLimit
from grader.reading.submission import Submission, UnreadableSubmission, read_submission
from grader.report import points
from grader.report.points import Points
from grader.report.records import (
    Counterexample,
    DiagnosisRecord,
    ErrorRecord,
    Excerpt,
    NoteRecord,
    PropertyRecord,
    SearchRecord,
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
from properties.check import check_property, find_first_failure
from properties.contract import Capability
from properties.families.values import it_equals_the_equation
from properties.harness.case_context import FLOAT32_NOTE
from properties.harness.harness import Harness
from properties.property import Property, Verdict, VerdictCallback, ignore_verdict
from properties.violation import Note, Status, SubmissionFailed

MAX_DEFINITIONS = 24
"""so many definitions of one file are graded: there are fewer exercises"""
MAX_LISTED = 8
"""so many of the other definitions are named"""


@dataclass(frozen=True)
class Settings:
    """The settings of a run, the same for every submission."""

    exercise: Exercise | None = None
    limits: Limits = field(default_factory=Limits)
    limit_overrides: Mapping[str, float] = field(default_factory=dict)
    """limits that go before those of an exercise"""
    points: Points | None = None
    seed: Seed = field(default_factory=Seed)
    device: str = "cpu"
    by_hand: bool = False
    """whether torch's own attention is withheld in every exercise that does not ask for it"""
    jobs: int | None = None
    """how many files are graded at the same time; by default as many as are worth it"""
    search: SearchLimit | None = None
    """how long to search for failures on generated cases, after the fixed ones"""

    def get_limits(self, exercise: Exercise | None) -> Limits:
        """Return the limits of a submission to an exercise."""
        own = {} if exercise is None else exercise.limits
        return self.limits.with_overrides({**own, **self.limit_overrides})

    def is_by_hand(self, exercise: Exercise) -> bool:
        """Return whether torch's own attention is withheld in an exercise."""
        return (self.by_hand or exercise.by_hand) and not exercise.contract.has(Capability.FUSED)


def grade_file(
    server: ChildFactory,
    submission: Submission,
    settings: Settings,
    on_search: SearchCallback = ignore_search,
) -> list[SubmissionRecord]:
    """Return the records of one file, or one that names an internal error.

    So the rest of a class is still graded. Raises SandboxError.
    """
    try:
        return grade_file_or_raise(server, submission, settings, on_search)
    except SandboxError:
        raise
    except Exception as error:
        problem = ErrorRecord(fault.ERROR_KIND, fault.describe(error))
        return [_record_ungraded(submission, settings, time.monotonic(), problem)]


def grade_file_or_raise(
    server: ChildFactory,
    submission: Submission,
    settings: Settings,
    on_search: SearchCallback = ignore_search,
) -> list[SubmissionRecord]:
    """Return the records of one file: one for every definition in it that answers an exercise.

    Whatever is wrong with the file is in the record. Raises only internal errors.
    """
    began, limits = time.monotonic(), settings.get_limits(settings.exercise)
    try:
        data = read_submission(submission, limits.source)
    except UnreadableSubmission as problem:
        return [record_unreadable(submission, settings, str(problem))]
    with contextlib.closing(Session(server, data, submission.kind, limits)) as session:
        targets = infer_targets(session, submission, settings)
        if isinstance(targets, ErrorRecord):
            source = collect_excerpts(session, [(targets.cell, targets.line)])
            return [replace(_record_ungraded(submission, settings, began, targets), source=source)]
        records = [
            grade_definition(session, submission, target, settings, on_search=on_search)
            for target in targets[:MAX_DEFINITIONS]
        ]
        if len(targets) > MAX_DEFINITIONS:
            records.append(_record_left_out(submission, settings, targets[MAX_DEFINITIONS:]))
    gc.collect()  # a harness and its contexts refer to each other, with all their tensors
    gc.freeze()  # what is left stays, and need not be looked at again after the next file
    return records


def infer_targets(
    session: Session, submission: Submission, settings: Settings
) -> list[Target] | ErrorRecord:
    """Return the definitions to grade and their exercises, or why there are none."""
    try:
        outline = session.read_outline()
    except SubmissionFailed as failed:
        return ErrorRecord("unreadable", failed.message, failed.cell, failed.line)
    try:
        signatures = infer.parse_outline(outline)
        return infer.choose_targets(signatures, settings.exercise, submission.name)
    except TargetNotFound as problem:
        return _explain_not_found(str(problem), outline)


def grade_definition(
    reading: Session,
    submission: Submission,
    target: Target,
    settings: Settings,
    on_verdict: VerdictCallback = ignore_verdict,
    on_search: SearchCallback = ignore_search,
) -> SubmissionRecord:
    """Return the record of one definition.

    `on_verdict` gets each verdict as soon as it is known, and `on_search` how far a search is.
    Raises only internal errors.
    """
    began, exercise = time.monotonic(), target.exercise
    contract = replace(exercise.contract, name=target.name)
    session = reading.start_successor(
        settings.get_limits(exercise), by_hand=settings.is_by_hand(exercise)
    )
    with contextlib.closing(session):
        try:
            warnings = session.load(target.name, *(other.name for other in contract.transfer or ()))
            live = LiveChecker(session, Harness(ChannelSubject(session), contract))
            seed, device = settings.seed.value, settings.device
            verdicts = check_all(
                live.harness, exercise, live.check, live.restart, seed, device, on_verdict
            )
            searched = search_further(live, target, settings, verdicts, on_search)
            if searched is not None:
                verdicts = [searched.found.get(v.property, v) for v in verdicts]
            explanation = explain_failures(
                live, target, settings, attach_hint(verdicts, warnings), searched
            )
        except SubmissionFailed as failed:
            error = _explain_load_error(failed, target.name)
            source = collect_excerpts(session, [(error.cell, error.line)])
            record = _record_ungraded(submission, settings, began, error, target)
            return replace(record, source=source)
    own = [target.note] if target.note else []
    notes = [
        *map(_record_warning, warnings),
        *map(record_note, [*own, *select_certain_notes(live.harness, verdicts)]),
    ]
    return _record_graded(submission, target, began, verdicts, notes, explanation)


def search_further(
    live: "LiveChecker",
    target: Target,
    settings: Settings,
    verdicts: Sequence[Verdict],
    on_search: SearchCallback = ignore_search,
) -> SearchResult | None:
    """Try generated cases on what holds, in a process of their own; None unless it is asked for."""
    if settings.search is None:
        return None
    with contextlib.closing(live.session.open_search()) as session:
        channel = DroppingChannel(session)
        harness = Harness(ChannelSubject(channel), live.harness.requested_contract)
        searching = LiveChecker(session, harness)

        def finish_case() -> None:
            harness.forget()
            channel.drop_all()

        return search(
            target.exercise,
            verdicts,
            searching.check_generated,
            finish_case,
            settings.search,
            seed=settings.seed.value,
            device=settings.device,
            on_case=on_search,
        )


@dataclass(frozen=True)
class LiveChecker:
    """Checks properties in a session, in a fresh process if the last one is gone."""

    session: Session
    harness: Harness

    def check(self, prop: Property, cases: Sequence[Case]) -> Verdict:
        """Check one property; again if the process was ended from outside meanwhile."""
        return self._check(prop, lambda: check_property(prop, self.harness, cases))

    def check_generated(self, prop: Property, case: Case) -> Verdict:
        """Check one property on one generated case, which may be large."""
        verdict = self._check(prop, lambda: find_first_failure(prop, self.harness, [case]))
        if verdict.violation is None or verdict.case is None:
            return verdict
        kind = verdict.violation.kind
        smaller = reduce_case(prop, self.harness, verdict.case, kind)
        again = self.check(prop, [smaller])
        if again.violation is not None:
            return again
        # It fails only after what came before it in this process: reported as it was found.
        detailed = verdict.violation.with_details(prop.claim, verdict.case_description, prop.hint)
        return replace(verdict, violation=detailed)

    def _check(self, prop: Property, check: Callable[[], Verdict]) -> Verdict:
        for _ in self.session.iter_tries():
            try:
                self.revive()
            except SubmissionFailed as failure:  # no time is left, or it cannot be loaded again
                verdict = Verdict(prop, failure.status, failure=failure)
            else:
                verdict = check()
        return verdict

    def revive(self) -> None:
        """Start a process if there is none. Raises SubmissionFailed."""
        if self.session.revive():
            self.harness.forget()

    def restart(self) -> None:
        """End the process, and with it all that the submission remembers."""
        self.session.close()
        self.harness.forget()


@dataclass(frozen=True)
class _Explanation:
    """What is said about verdicts, as a record holds it."""

    properties: tuple[PropertyRecord, ...]
    diagnosis: tuple[DiagnosisRecord, ...]
    source: tuple[Excerpt, ...]
    search: SearchRecord | None = None


def explain_failures(
    live: LiveChecker,
    target: Target,
    settings: Settings,
    verdicts: Sequence[Verdict],
    searched: SearchResult | None = None,
) -> _Explanation:
    """Return points, diagnosed mistakes, evidence and excerpts. Raises SubmissionFailed."""
    session, harness = live.session, live.harness
    for _ in session.iter_tries():
        with contextlib.suppress(SubmissionFailed):  # the verdicts stand, and are reported
            live.revive()
        properties = _record_properties(
            target.exercise, verdicts, settings.points, harness, searched
        )
        mistakes = explain.diagnose_failures(session, harness, verdicts, settings.device)
        diagnosis = explain.record_diagnoses(session, mistakes)
        if session.is_alive:
            properties = evidence.attach_evidence(properties, verdicts, harness, mistakes)
        source = collect_excerpts(session, list_locations(verdicts, diagnosis))
    record = None if searched is None else record_search(searched)
    return _Explanation(tuple(properties), tuple(diagnosis), tuple(source), record)


def record_search(searched: SearchResult) -> SearchRecord:
    """Return a search as a record holds it."""
    names = tuple(prop.name for prop in searched.found)
    return SearchRecord(searched.cases, names, searched.stopped)


def _record_graded(
    submission: Submission,
    target: Target,
    began: float,
    verdicts: Sequence[Verdict],
    notes: Sequence[NoteRecord],
    explanation: _Explanation,
) -> SubmissionRecord:
    return SubmissionRecord(
        file=submission.display_path,
        student=submission.student,
        exercise=target.exercise.slug,
        name=target.name,
        score=round(sum(p.points for p in explanation.properties), 6),
        max_score=round(sum(p.max_points for p in explanation.properties), 6),
        status=summarise_status(verdicts).value,
        seconds=time.monotonic() - began,
        properties=explanation.properties,
        notes=tuple(dict.fromkeys(notes)),
        diagnosis=explanation.diagnosis,
        source=explanation.source,
        search=explanation.search,
    )


def select_certain_notes(harness: Harness, verdicts: Sequence[Verdict]) -> list[Note]:
    """Return the notes of a harness that hold whatever else is wrong.

    Only a right answer is known to be as exact as float32: a wrong one may come near by chance.
    """
    right = all(v.status is Status.PASSED for v in verdicts if v.property is it_equals_the_equation)
    return [note for note in harness.notes.values() if right or note != FLOAT32_NOTE]


def list_locations(
    verdicts: Sequence[Verdict], named: Sequence[DiagnosisRecord]
) -> list[SourceLocation]:
    """Return where in the code the diagnosed mistakes are, and where it raised."""
    raised = [(v.failure.cell, v.failure.line) for v in verdicts if v.failure is not None]
    return [*((each.cell, each.line) for each in named), *raised]


def attach_hint(
    verdicts: Sequence[Verdict], warnings: Sequence[Mapping[str, Any]]
) -> list[Verdict]:
    """Return the verdicts; the first failure has a warning about a notebook variable as its hint.

    A class that reads a notebook variable fails in many ways, and that is the likeliest reason.
    """
    reasons = [str(w["message"]) for w in warnings if w.get("kind") == "notebook_variable"]
    failures = [
        i for i, v in enumerate(verdicts) if v.case is not None and v.message and not v.unsupported
    ]
    hinted = list(verdicts)
    if reasons and failures:
        hinted[failures[0]] = replace(hinted[failures[0]], hint=reasons[0])
    return hinted


def summarise_status(verdicts: Sequence[Verdict]) -> Status:
    """Return one status for a submission: that of its first failure, in the order of properties.

    Without a failure it is passed, unless something is unsupported.
    """
    failures = (v.status for v in verdicts if v.status not in (Status.PASSED, Status.NOT_TRIED))
    if (first := next(failures, None)) is not None:
        return first
    return Status.NOT_TRIED if any(v.unsupported for v in verdicts) else Status.PASSED


def _record_properties(
    exercise: Exercise,
    verdicts: Sequence[Verdict],
    given: Points | None,
    harness: Harness,
    searched: SearchResult | None,
) -> list[PropertyRecord]:
    worth = points.distribute_points(exercise, given)
    found = frozenset() if searched is None else frozenset(searched.found)
    earned = points.award_points(exercise, verdicts, given, found)
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
    """Say why there is nothing to grade; if a cell is no Python, that is the likely reason."""
    for broken in outline.get("broken", ()):
        text = f"{broken['message']}; nothing in this cell can be used"
        return ErrorRecord("syntax", f"{text} ({problem})", broken["cell"], broken["line"])
    return ErrorRecord("not_found", problem)


def _explain_load_error(failed: SubmissionFailed, name: str) -> ErrorRecord:
    """Say why a definition could not be loaded, and what to do."""
    kind, _, rest = failed.message.partition(": ")
    if kind == "ModuleNotFoundError":
        module = rest.split("'")[1] if "'" in rest else rest
        text = f"`{name}` imports `{module}`, which is not installed where it is graded"
        return ErrorRecord("import", text, failed.cell, failed.line)
    reason = "could not be loaded"
    if isinstance(failed, BudgetExhausted):
        reason = "was not judged, since all that a file may use was used"
    text = f"`{name}` {reason}: {failed.message}"
    return ErrorRecord(failed.status.value, text, failed.cell, failed.line)


def _record_left_out(
    submission: Submission, settings: Settings, left: Sequence[Target]
) -> SubmissionRecord:
    """Return one record for the definitions of a file that are too many to be graded."""
    names = ", ".join(f"`{target.name}`" for target in left[:MAX_LISTED])
    more = f" and {len(left) - MAX_LISTED} more" if len(left) > MAX_LISTED else ""
    text = (
        f"{names}{more}: not judged, since of one file the first {MAX_DEFINITIONS} definitions "
        "that answer an exercise are; hand in the others in files of their own"
    )
    began = time.monotonic()
    return _record_ungraded(submission, settings, began, ErrorRecord("too_many", text), left[0])


def record_unreadable(submission: Submission, settings: Settings, problem: str) -> SubmissionRecord:
    """Return the record of a file that cannot be read."""
    error = ErrorRecord("unreadable", problem)
    return _record_ungraded(submission, settings, time.monotonic(), error)


def _record_ungraded(
    submission: Submission,
    settings: Settings,
    began: float,
    error: ErrorRecord,
    target: Target | None = None,
) -> SubmissionRecord:
    exercise = target.exercise if target else settings.exercise
    most = sum(points.distribute_points(exercise, settings.points).values()) if exercise else 0.0
    known = {status.value for status in Status}
    return SubmissionRecord(
        file=submission.display_path,
        student=submission.student,
        exercise=exercise.slug if exercise else None,
        name=target.name if target else submission.name,
        score=0.0,
        max_score=round(most, 6),
        status=error.kind if error.kind in known else Status.NOT_TRIED.value,
        seconds=time.monotonic() - began,
        error=replace(error, message=shorten(error.message)),
    )


def record_note(note: Note) -> NoteRecord:
    """Return a note of the grader's own as a record holds it."""
    return NoteRecord(note.kind, shorten(note.message), note.cell, note.line)
