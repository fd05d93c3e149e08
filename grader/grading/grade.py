"""Grade one file: the three middle steps of find, infer, check, explain, report.

`grader.run.grade_paths` finds the files and reports on all records. This module does three steps
for each file in between:

1. infer: `infer_targets` reads the outline and chooses definitions and their exercises.
2. check: `check_all` gives a verdict on every property, from batches or by a `LiveChecker`;
   `search_further` tries generated cases if a search was requested.
3. explain: `explain_failures` names mistakes and finds their consequences. It also searches for the
   smallest examples of the failures to show, counts points, and collects evidence and excerpts.
"""

import contextlib
import functools
import gc
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headcheck.exercises import ALL
from headcheck.exercises.exercise import BadContract
from headcheck.grader import fault
from headcheck.grader.batch.check import check_all, check_all_live
from headcheck.grader.grading import infer, open_mode
from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.explanation import explain_failures
from headcheck.grader.grading.infer import Inferred, Target
from headcheck.grader.grading.live_checker import LiveChecker, search_further
from headcheck.grader.grading.recording import (
    MAX_DEFINITIONS,
    attach_hint,
    explain_load_error,
    explain_not_found,
    explain_unrecognised,
    note_siblings,
    record_busy,
    record_definition,
    record_left_out,
    record_note,
    record_ungraded,
    record_unreadable,
    record_warnings,
    select_certain_notes,
    summarise_status,
)
from headcheck.grader.grading.same_code import JudgedCode, make_key
from headcheck.grader.grading.search import SearchCallback, ignore_search
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.stated_form import check_stated_form
from headcheck.grader.grading.unasked_biases import find_unasked_biases, make_note, silence
from headcheck.grader.grading.unwritten import find_unwritten
from headcheck.grader.reading.siblings import gather_siblings
from headcheck.grader.reading.submission import Submission, UnreadableSubmission, read_submission
from headcheck.grader.report.records import ErrorRecord, PropertyRecord, SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import MachineBusy, SandboxError
from headcheck.grader.sandbox.grader_side.session import ChildFactory, Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.binding.binding import Binding
from headcheck.properties.binding.signature import Signature
from headcheck.properties.families.constructor import the_config_holds_all_it_needs
from headcheck.properties.families.contract import FORM, the_output_has_the_right_shape
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Verdict, VerdictCallback, ignore_verdict
from headcheck.properties.violations.violation import NOT_FAILED, Note, Status, SubmissionFailed

OTHER_ARGUMENTS = re.compile(
    r"TypeError|\btakes (no|\d+) arguments?|, which was not given|unexpected keyword"
)
"""matches errors of a class that was called with arguments it does not take"""
TargetCallback = Callable[[Target], None]
"""A callback that gets every target before the target is graded."""


def ignore_target(target: Target) -> None:
    """Do nothing: the caller does not follow single targets."""


def grade_file(
    server: ChildFactory,
    submission: Submission,
    settings: Settings,
    on_search: SearchCallback = ignore_search,
    judged: JudgedCode | None = None,
) -> list[SubmissionRecord]:
    """Return the records of one file, or one record that says why there is no verdict.

    The reason is an internal error or a busy machine; the other files are graded nevertheless. Code
    that is already in `judged` is not judged again. Raises only SandboxError and BadContract,
    because these would keep every file from being graded.
    """
    try:
        return grade_file_or_raise(server, submission, settings, on_search, judged)
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
    on_search: SearchCallback = ignore_search,
    judged: JudgedCode | None = None,
) -> list[SubmissionRecord]:
    """Return the records of one file: one record for every definition that answers an exercise.

    If anything is wrong with the file, the record says so. Raises only internal errors.
    """
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
        records = grade_inferred(session, submission, settings, inferred, on_search=on_search)
        beside = note_siblings(siblings)
        records = [replace(record, notes=(*record.notes, *beside)) for record in records]
        if judged is not None and not _was_killed(session):
            judged.keep(key, records)
    gc.collect()  # a harness and its contexts refer to each other, with all their tensors
    gc.freeze()  # what is left stays, and need not be looked at again after the next file
    return records


def _was_killed(session: Session) -> bool:
    """Return whether a process of this submission was killed from outside headcheck."""
    child = session.child
    return session.killed_children > 0 or (child is not None and child.killed_by_others)


def infer_targets(session: Session, submission: Submission, settings: Settings) -> Inferred:
    """Return the definitions to grade and their exercises, or why there are none."""
    try:
        outline = session.read_outline()
    except SubmissionFailed as failed:
        error = ErrorRecord("unreadable", failed.message, failed.cell, failed.line)
        return Inferred(problem=error)
    found = infer.parse_outline(outline)
    inferred = infer.infer_all(found, settings.exercise, submission.name)
    inferred = replace(inferred, code=str(outline.get("code", "")))
    if inferred.problem is None:
        return inferred
    return replace(inferred, problem=explain_not_found(inferred.problem, outline))


def grade_inferred(
    session: Session,
    submission: Submission,
    settings: Settings,
    inferred: Inferred,
    on_target: TargetCallback = ignore_target,
    on_verdict: VerdictCallback = ignore_verdict,
    on_search: SearchCallback = ignore_search,
) -> list[SubmissionRecord]:
    """Return the records of inferred targets, or one record that says why there are no targets.

    The callbacks get each target and each verdict as soon as it is known, and also the progress of
    a search. Raises only internal errors.
    """
    callbacks = on_target, on_verdict, on_search
    grading = _Grading(session, submission, settings, inferred.signatures, *callbacks)
    records = grading.grade_named(inferred.targets) + grading.grade_others(inferred.candidates)
    records = records or grading.grade_others(inferred.functions)
    return records or [grading.record_nothing(inferred.problem)]


@dataclass(eq=False)
class _Grading:
    """The grading of one file."""

    session: Session
    submission: Submission
    settings: Settings
    signatures: Mapping[str, Signature]
    on_target: TargetCallback
    on_verdict: VerdictCallback
    on_search: SearchCallback
    began: float = field(default_factory=time.monotonic)
    failure: tuple[str, SubmissionFailed] | None = None
    """the failure that kept a class from being recognised"""
    unrecognised: list[str] = field(default_factory=list)
    """unrecognised classes, each with a description of the attempts"""
    failures: list[str] = field(default_factory=list)
    """the errors raised when unrecognised classes were constructed or called"""
    unwritten: Mapping[str, ErrorRecord] = field(default_factory=dict)
    """the errors for definitions that are unchanged from the starter, by name"""

    def grade_named(self, targets: Sequence[Target]) -> list[SubmissionRecord]:
        """Return the records of the definitions that answer exercises by their names."""
        with contextlib.suppress(SubmissionFailed):  # then it fails again when it is judged
            self.unwritten = find_unwritten(self.session, targets[:MAX_DEFINITIONS])
        graded = (self._grade_in_its_terms(target) for target in targets[:MAX_DEFINITIONS])
        records = [record for record in graded if record is not None]
        if len(targets) > MAX_DEFINITIONS:
            left_out = targets[MAX_DEFINITIONS:]
            records.append(record_left_out(self.submission, self.settings, left_out))
        return records

    def grade_others(self, candidates: Sequence[Signature]) -> list[SubmissionRecord]:
        """Return the records of definitions that are recognised by their behaviour."""
        records = []
        for signature in candidates[:MAX_DEFINITIONS]:
            binding = self._recognise_alone(signature)
            if binding is not None:
                records.append(self._grade(open_mode.make_open_target(signature, binding)))
        return records

    def _grade_in_its_terms(self, target: Target) -> SubmissionRecord | None:
        """Return the record of an answer; an answer with another form is judged in its own terms.

        If no exercise was requested, such an answer is judged only by its behaviour. Returns None
        for a definition that only resembles an exercise by its name, has another form, and computes
        no known attention.
        """
        record = self._grade(target)
        signature = self.signatures.get(target.name)
        passed = record.status == Status.PASSED.value
        named = target.name == target.exercise.contract.name and not target.by_position
        resembles = self.settings.exercise is None and not named
        differs = has_other_form(record, asked=self.settings.exercise is not None, named=named)
        if passed or not (resembles or differs):
            return record
        if signature is None:  # a function of other things than queries, keys and values
            return None if resembles and differs else record
        binding = self._recognise(signature)
        if binding is None and resembles and differs and self.failure is None:
            return None
        if binding is None or binding.inexact or (binding.mistakes and not differs):
            return record
        other: Target | None = open_mode.make_open_target(signature, binding)
        if self.settings.exercise is not None:
            other = open_mode.make_adapted_target(signature, target, binding)
        return record if other is None else self._grade(other)

    def _recognise(self, signature: Signature) -> Binding | None:
        try:
            found = open_mode.recognise(self.session, signature, self.settings)
        except SubmissionFailed as failed:
            self.failure = self.failure or (signature.name, failed)
            return None
        if isinstance(found, Binding):
            return found
        self.unrecognised.append(f"`{signature.name}` ({found.tried})")
        self.failures.extend(found.failures)
        return None

    def _recognise_alone(self, signature: Signature) -> Binding | None:
        """Return a class's binding; if headcheck fails here, other classes still get verdicts."""
        recognise = functools.partial(self._recognise, signature)
        return fault.contain(recognise, None, SandboxError, BadContract)

    def _grade(self, target: Target) -> SubmissionRecord:
        if target.name in self.unwritten:
            return self._record_error(self.unwritten[target.name], target)
        self.on_target(target)
        args = self.session, self.submission, target, self.settings
        return grade_definition(*args, self.on_verdict, self.on_search)

    def record_nothing(self, problem: ErrorRecord | None) -> SubmissionRecord:
        """Return the record of a file that holds nothing to judge."""
        if self.failure is not None and not self.unrecognised:
            name, failed = self.failure
            problem = explain_load_error(failed, name)
        problem = problem or ErrorRecord("not_found", "nothing in it answers an exercise")
        if self.unrecognised:
            problem = explain_unrecognised(problem, self.unrecognised, self.failures)
        return self._record_error(problem)

    def _record_error(self, error: ErrorRecord, target: Target | None = None) -> SubmissionRecord:
        source = collect_excerpts(self.session, [(error.cell, error.line)])
        record = record_ungraded(self.submission, self.settings, self.began, error, target)
        return replace(record, source=source)


def has_other_form(record: SubmissionRecord, *, asked: bool, named: bool) -> bool:
    """Whether a definition's arguments, calls or results differ from the exercise's.

    If this exercise was requested, or the definition has the exercise's name, an error within
    `forward` counts as a mistake and not as another form. Otherwise a class that crashes at most
    lengths might be taken for another kind of attention because of the remaining lengths.
    """
    form = {prop.name for prop in (*FORM, the_config_holds_all_it_needs)}
    unmet = [p for p in record.properties if p.name in form and p.status not in NOT_FAILED]
    if asked:
        return any(p.status == Status.FAILED.value or _takes_others(p) for p in unmet)
    return any(not (named and _crashes_in_forward(p)) for p in unmet)


def _takes_others(unmet: PropertyRecord) -> bool:
    return OTHER_ARGUMENTS.search(unmet.message) is not None


def _crashes_in_forward(unmet: PropertyRecord) -> bool:
    called = unmet.name == the_output_has_the_right_shape.name
    return called and unmet.status == Status.CRASHED.value and not _takes_others(unmet)


def grade_definition(
    reading: Session,
    submission: Submission,
    target: Target,
    settings: Settings,
    on_verdict: VerdictCallback = ignore_verdict,
    on_search: SearchCallback = ignore_search,
) -> SubmissionRecord:
    """Return the record of one definition.

    `on_verdict` gets each verdict as soon as it is known, and `on_search` gets the progress of a
    search. Raises only internal errors.
    """
    began, exercise = time.monotonic(), target.exercise
    contract = replace(exercise.contract, name=target.name)
    session = reading.start_successor(
        settings.get_limits(exercise), by_hand=settings.is_by_hand(exercise)
    )
    with contextlib.closing(session):
        try:
            warnings = session.load(target.name, *(other.name for other in contract.transfer or ()))
            harness = Harness(ChannelSubject(session), contract)
            if target.contract is not None:
                harness.contract = target.contract
            live = LiveChecker(session, harness)
            verdicts = check_definition(live, target, settings, on_verdict)
            noted: list[Note] = []
            biases = () if target.contract else find_unasked_biases(live, verdicts)
            if biases and (other := silence(live, biases)):
                verdicts = check_definition(other, target, settings, ignore_verdict)
                live, noted = other, [make_note(biases)]
            searched = search_further(live, target, settings, verdicts, on_search)
            if searched is not None:
                verdicts = [searched.found.get(v.property, v) for v in verdicts]
            explanation = explain_failures(
                live, target, settings, attach_hint(verdicts, warnings), searched
            )
        except SubmissionFailed as failed:
            error = explain_load_error(failed, target.name)
            source = collect_excerpts(session, [(error.cell, error.line)])
            record = record_ungraded(submission, settings, began, error, target)
            return replace(record, source=source)
    certain = select_certain_notes(live.harness, verdicts)
    notes = [
        *record_warnings(warnings, live.harness.contract, summarise_status(verdicts)),
        *map(record_note, [*target.notes, *noted, *certain]),
    ]
    found = verdicts, notes, explanation
    return record_definition(submission, target, began, *found, settings.rounding)


def check_definition(
    live: LiveChecker, target: Target, settings: Settings, on_verdict: VerdictCallback
) -> list[Verdict]:
    """Return the verdicts on one definition, judged by its own contract if it has one."""
    exercise, seed, device = target.exercise, settings.seed.value, settings.device
    alone = target.contract is not None or open_mode.is_open(exercise)
    check = check_all_live if alone else check_all
    verdicts = check(live.harness, exercise, live.check, live.restart, seed, device, on_verdict)
    if target.contract is None:
        return verdicts
    plan = exercise.plan_cases(seed, device)
    return check_stated_form(live, live.harness.requested_contract, plan, verdicts)
