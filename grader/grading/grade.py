"""Grade one file: the three middle steps of find, infer, check, explain, report.

`grader.run.grade_paths` finds the files and reports on all records. This module does three steps
for each file in between:

1. infer: `infer_targets` reads the outline and chooses definitions and their exercises.
2. check: each definition is judged in one or more attempts (`attempts`), in processes of its own;
   `search_further` tries generated cases if a search was requested.
3. explain: `explain_failures` names mistakes and finds their consequences. It also searches for the
   smallest examples of the failures to show, counts points, and collects evidence and excerpts.
"""

import contextlib
import functools
import gc
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from headcheck.exercises import ALL
from headcheck.exercises.exercise import BadContract
from headcheck.grader import fault
from headcheck.grader.grading import definitions, infer
from headcheck.grader.grading.definition_grader import DefinitionGrader, record_error
from headcheck.grader.grading.events import Listener, ignore
from headcheck.grader.grading.infer import Inferred, Target
from headcheck.grader.grading.other_form import find_difference, takes_more
from headcheck.grader.grading.outcome import (
    Outcome,
    list_records,
    list_resembling,
    list_unrecognised,
)
from headcheck.grader.grading.recording import note_siblings
from headcheck.grader.grading.same_code import JudgedCode, make_key
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.ungraded import (
    MAX_DEFINITIONS,
    explain_not_found,
    explain_nothing,
    note_unjudged,
    record_busy,
    record_left_out,
    record_ungraded,
    record_unreadable,
)
from headcheck.grader.grading.unwritten import find_unwritten
from headcheck.grader.reading.layer_code import LayerCode
from headcheck.grader.reading.siblings import gather_siblings
from headcheck.grader.reading.submission import Submission, UnreadableSubmission, read_submission
from headcheck.grader.report.records import ErrorRecord, SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import MachineBusy, SandboxError
from headcheck.grader.sandbox.grader_side.session import ChildFactory, Session
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.violations.violation import Status, SubmissionFailed

if TYPE_CHECKING:
    from headcheck.grader.grading.open_mode.judge import OpenJudge


def grade_file(
    server: ChildFactory,
    submission: Submission,
    settings: Settings,
    emit: Listener = ignore,
    judged: JudgedCode | None = None,
) -> list[SubmissionRecord]:
    """Return the records of one file, or one record that says why there is no verdict.

    The reason is an internal error or a busy machine; the other files are graded nevertheless. Code
    that is already in `judged` is not judged again. Raises only SandboxError and BadContract,
    because these would keep every file from being graded.
    """
    try:
        return grade_file_or_raise(server, submission, settings, emit, judged)
    except MachineBusy as busy:
        return [record_busy(submission, settings, str(busy))]
    except (SandboxError, BadContract):
        raise
    except Exception as error:
        problem = ErrorRecord(fault.ERROR_KIND, fault.describe(error))
        return [record_ungraded(submission, settings, time.monotonic(), problem)]


def grade_file_or_raise(
    server: ChildFactory,
    submission: Submission,
    settings: Settings,
    emit: Listener = ignore,
    judged: JudgedCode | None = None,
) -> list[SubmissionRecord]:
    """Return the records of one file: one record for every definition that answers an exercise.

    If anything is wrong with the file, the record says so. Raises only internal errors.
    """
    gc.collect()  # the last file's harness and contexts refer to each other, with all tensors
    gc.freeze()  # what is left stays, and need not be looked at again after this file
    limits = settings.get_limits(settings.exercise)
    try:
        data = read_submission(submission, limits.source)
    except UnreadableSubmission as problem:
        return [record_unreadable(submission, settings, str(problem))]
    asked = (*ALL, settings.exercise) if settings.exercise else ALL
    entries = frozenset(exercise.contract.name for exercise in asked)
    siblings = gather_siblings(submission, data, limits.source, entries)
    with contextlib.closing(Session(server, data, submission.kind, limits, siblings)) as session:
        inferred = infer_targets(session, submission, settings)
        key = make_key(inferred.code, siblings, inferred, submission.name)
        known = judged.recall(key, submission, session) if judged is not None else []
        if known:
            return known
        records = grade_inferred(session, submission, settings, inferred, emit)
        beside = note_siblings(siblings)
        records = [replace(record, notes=(*record.notes, *beside)) for record in records]
        if judged is not None and not session.count_killed():
            judged.keep(key, records)
    return records


def infer_targets(session: Session, submission: Submission, settings: Settings) -> Inferred:
    """Return the definitions to grade and their exercises, or why there are none."""
    try:
        outline = session.read_outline()
    except SubmissionFailed as failed:
        error = ErrorRecord("unreadable", failed.message, failed.cell, failed.line)
        return Inferred(problem=error)
    found = definitions.parse_outline(outline)
    inferred = infer.infer_all(found, settings.exercise, submission.name)
    inferred = replace(
        inferred,
        code=str(outline.get("code", "")),
        classes=msgspec.convert(outline.get("classes", ()), tuple[LayerCode, ...]),
    )
    if inferred.problem is None:
        return inferred
    return replace(inferred, problem=explain_not_found(inferred.problem, outline))


def grade_inferred(
    session: Session,
    submission: Submission,
    settings: Settings,
    inferred: Inferred,
    emit: Listener = ignore,
) -> list[SubmissionRecord]:
    """Return the records of inferred targets, or one record that says why there are no targets.

    Raises only internal errors.
    """
    grading = _Grading(session, submission, settings, inferred, emit)
    outcomes = (*grading.judge_named(), *grading.judge_all(inferred.candidates))
    records = [*list_records(outcomes), *grading.judge_layers(outcomes)]
    unjudged = list_unrecognised(outcomes, records)
    shown: Collection[str] = list_resembling(outcomes) if records else unjudged
    functions = [] if records else grading.judge_all(inferred.functions)
    records += list_records(functions)
    if not records:
        problem = explain_nothing(inferred.problem, (*outcomes, *functions))
        return [grading.record_error(problem)]
    first, *others = records
    return [replace(first, notes=(*first.notes, *note_unjudged(unjudged, shown))), *others]


@dataclass(frozen=True)
class _Grading:
    """The grading of one file."""

    session: Session
    submission: Submission
    settings: Settings
    inferred: Inferred
    emit: Listener
    began: float = field(default_factory=time.monotonic)

    @functools.cached_property
    def _open(self) -> "OpenJudge":
        # Here, since an answer in the form that its exercise asks for needs none of this.
        from headcheck.grader.grading.open_mode.judge import OpenJudge

        return OpenJudge(self.session, self.submission, self.settings, self.emit)

    def judge_named(self) -> Iterator[Outcome]:
        """Yield what becomes of the definitions that answer exercises by their names."""
        every = self.inferred.targets
        targets, left_out = every[:MAX_DEFINITIONS], every[MAX_DEFINITIONS:]
        unwritten = dict[str, ErrorRecord]()
        with contextlib.suppress(SubmissionFailed):  # then it fails again when it is judged
            unwritten = find_unwritten(self.session, targets)
        judged = [self._judge_answer(each, unwritten.get(each.name)) for each in targets]
        yield from judged
        for target, outcome in zip(targets, judged, strict=True):
            yield from self._judge_beyond(target, outcome)
        if left_out:
            record = record_left_out(self.submission, self.settings, left_out)
            yield Outcome(left_out[0].name, record)

    def _judge_answer(self, target: Target, unwritten: ErrorRecord | None) -> Outcome:
        """Judge a definition by its exercise, or in its own terms if it has another form."""
        if unwritten is not None:
            return Outcome(target.name, self.record_error(unwritten, target))
        known, signature = Outcome(target.name), self.inferred.signatures.get(target.name)
        asked = self.settings.exercise is not None
        with DefinitionGrader(self.session, self.settings, self.emit) as grader:
            judged = grader.judge(target)
            differs = find_difference(judged, signature, asked=asked)
            if differs is not None and signature is not None:
                judged.live.restart()
                known, own = self._open.find_own_terms(signature, target, differs)
                judged = grader.judge_as(own, judged) if own is not None else judged
            elif differs is not None and differs.resembles and differs:
                # a function of other things than queries, keys and values
                known = Outcome(target.name, resembles=target.exercise)
            if known.resembles is not None:
                return known
            outcome = replace(known, record=grader.record(judged, self.submission))
        return outcome if known.recognition is None else self._open.judge_further(outcome)

    def _judge_beyond(self, target: Target, outcome: Outcome) -> Iterator[Outcome]:
        """Yield what becomes of a right answer whose calls take more."""
        signature, record = self.inferred.signatures.get(target.name), outcome.record
        if record is None or record.exercise == infer.OPEN or self.settings.exercise is not None:
            return
        right = record.status == Status.PASSED.value
        if right and signature is not None and takes_more(signature, target.exercise.contract):
            yield self._open.judge_beyond(signature, target.exercise.slug)

    def judge_all(self, signatures: Sequence[Signature]) -> list[Outcome]:
        """Return what becomes of definitions that are recognised by their behaviour."""
        return [self._open.judge(each) for each in signatures[:MAX_DEFINITIONS]]

    def judge_layers(self, outcomes: Sequence[Outcome]) -> list[SubmissionRecord]:
        """Return the records of layers around attention."""
        seen = any(o.recognition is not None and o.recognition.layer for o in outcomes)
        if self.settings.exercise is not None or not seen:
            return []
        return self._open.judge_layers(outcomes, self.inferred.classes)

    def record_error(self, error: ErrorRecord, target: Target | None = None) -> SubmissionRecord:
        given = self.submission, self.settings, self.began, error, target
        return record_error(self.session, *given)
