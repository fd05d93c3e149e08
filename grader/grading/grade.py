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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.exercise import BadContract
from headcheck.grader import fault
from headcheck.grader.grading import definitions, infer
from headcheck.grader.grading.attempts import Attempt, ask, judge, repeat_alone
from headcheck.grader.grading.definition_grader import (
    FOLLOW_UPS,
    DefinitionGrader,
    FollowUp,
    LiveJudgement,
    record_error,
)
from headcheck.grader.grading.events import Listener, ignore
from headcheck.grader.grading.infer import Inferred, Target
from headcheck.grader.grading.other_form import (
    find_difference,
    is_foreign,
    say_beyond,
    say_exercise,
    takes_more,
)
from headcheck.grader.grading.recording import note_siblings, summarise_status
from headcheck.grader.grading.same_code import JudgedCode, make_key
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.ungraded import (
    MAX_DEFINITIONS,
    explain_load_error,
    explain_not_found,
    explain_unrecognised,
    explain_unrelated,
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
from headcheck.grader.report.records import (
    ErrorRecord,
    SubmissionRecord,
)
from headcheck.grader.sandbox.grader_side.servers import MachineBusy, SandboxError
from headcheck.grader.sandbox.grader_side.session import ChildFactory, Session
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.violations.violation import Status, SubmissionFailed

if TYPE_CHECKING:
    from headcheck.grader.grading.observed_layers import ObservedLayer
    from headcheck.properties.binding.binding import Binding, NotBound


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
        if judged is not None and not _was_killed(session):
            judged.keep(key, records)
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
    grading = _Grading(session, submission, settings, inferred.signatures, emit)
    classes = grading.grade_named(inferred.targets) + grading.grade_others(inferred.candidates)
    layers = grading.grade_layers(classes, inferred)
    classes += layers
    shown = grading.unrelated if classes else grading.unrecognised
    unjudged = note_unjudged(grading.unrecognised, shown)
    records = classes or grading.grade_others(inferred.functions)
    if not records:
        return [grading.record_nothing(inferred.problem)]
    first, *others = records
    return [replace(first, notes=(*first.notes, *unjudged)), *others]


@dataclass(eq=False)
class _Grading:
    """The grading of one file."""

    session: Session
    submission: Submission
    settings: Settings
    signatures: Mapping[str, Signature]
    emit: Listener
    began: float = field(default_factory=time.monotonic)
    failure: tuple[str, SubmissionFailed] | None = None
    """the failure that kept a class from being recognised"""
    unrecognised: dict[str, "NotBound"] = field(default_factory=dict)
    """the classes that were not recognised, by name"""
    unrelated: dict[str, Exercise] = field(default_factory=dict)
    """the definitions that only resemble an exercise by their names, with this exercise"""
    bindings: dict[str, "Binding"] = field(default_factory=dict)
    """the bindings of the classes that were recognised, by name"""
    layers: dict[str, "tuple[Signature, ObservedLayer]"] = field(default_factory=dict)
    """what was seen of classes that use attention without being attention, by name"""
    unwritten: Mapping[str, ErrorRecord] = field(default_factory=dict)
    """the errors for definitions that are unchanged from the starter, by name"""

    def grade_named(self, targets: Sequence[Target]) -> list[SubmissionRecord]:
        """Return the records of the definitions that answer exercises by their names."""
        with contextlib.suppress(SubmissionFailed):  # then it fails again when it is judged
            self.unwritten = find_unwritten(self.session, targets[:MAX_DEFINITIONS])
        follow_ups = (*FOLLOW_UPS, self._use_own_terms, repeat_alone)
        judged = [(each, self._grade_one(each, follow_ups)) for each in targets[:MAX_DEFINITIONS]]
        records = [record for _, record in judged if record is not None]
        more = (self._grade_beyond(each, record) for each, record in judged if record is not None)
        records += [record for record in more if record is not None]
        if len(targets) > MAX_DEFINITIONS:
            left_out = targets[MAX_DEFINITIONS:]
            records.append(record_left_out(self.submission, self.settings, left_out))
        return records

    def _grade_one(self, target: Target, follow_ups: Sequence[FollowUp]) -> SubmissionRecord | None:
        """Return the record of a definition, in its other forms, too, if it is judged by itself."""
        record, signature = self._grade(target, follow_ups), self.signatures.get(target.name)
        binding = self.bindings.get(target.name)
        if record is None or record.exercise != infer.OPEN or None in (signature, binding):
            return record
        assert signature is not None and binding is not None
        return self._judge_forms(signature, binding, record)

    def _grade_beyond(self, target: Target, record: SubmissionRecord) -> SubmissionRecord | None:
        """Return the record of a right answer whose calls take more, if that is wrong."""
        signature = self.signatures.get(target.name)
        whole = self.settings.exercise is None and record.exercise != infer.OPEN
        right = whole and record.status == Status.PASSED.value
        if not right or signature is None or not takes_more(signature, target.exercise.contract):
            return None
        binding = self._recognise_alone(signature)
        judged = binding and self._judge_forms(signature, say_beyond(binding, target.exercise.slug))
        return judged if judged and judged.status != Status.PASSED.value else None

    def grade_others(self, candidates: Sequence[Signature]) -> list[SubmissionRecord]:
        """Return the records of definitions that are recognised by their behaviour."""
        bound = ((each, self._recognise_alone(each)) for each in candidates[:MAX_DEFINITIONS])
        graded = (self._judge_forms(s, b) for s, b in bound if b is not None)
        return [record for record in graded if record is not None]

    def grade_layers(
        self, records: Sequence[SubmissionRecord], inferred: Inferred
    ) -> list[SubmissionRecord]:
        """Return the records of layers around attention, which are unrecognised no more."""
        if self.settings.exercise is not None or not self.layers:
            return []
        from headcheck.grader.grading.layers import LayerJudge

        whole = [name for each in records if (name := each.name) and self._has_layers(each)]
        kinds = {name: found.kind for name, found in self.unrecognised.items() if found.kind}
        judge = LayerJudge(self.session, self.submission, inferred.classes, records, whole, kinds)
        run = functools.partial(judge.judge, self.layers)
        made = fault.contain(run, list[SubmissionRecord](), SandboxError, BadContract)
        for record in made:
            self.unrecognised.pop(record.name or "", None)
        return made

    def _has_layers(self, record: SubmissionRecord) -> bool:
        """Whether a judged definition has layers for queries, keys and values."""
        binding, exercise = self.bindings.get(record.name or ""), BY_SLUG.get(record.exercise or "")
        contract = binding.contract if binding else exercise.contract if exercise else None
        return contract is not None and contract.has(Capability.PROJECTED)

    def _judge_forms(
        self, signature: Signature, binding: "Binding", known: SubmissionRecord | None = None
    ) -> SubmissionRecord | None:
        """Return the record of a class by the form with which it loses most."""
        from headcheck.grader.grading.several_masks import MaskJudge

        grade = functools.partial(self._grade, follow_ups=FOLLOW_UPS)
        record = MaskJudge(grade, self._recognise_alone).judge(signature, binding, known)
        self.unrecognised.pop(signature.name, None)  # it is judged in some form
        return record

    def _grade(self, target: Target, follow_ups: Sequence[FollowUp]) -> SubmissionRecord | None:
        """Return the record of a definition; None for one that answers no exercise after all."""
        if target.name in self.unwritten:
            return self._record_error(self.unwritten[target.name], target)
        with DefinitionGrader(self.session, self.settings, self.emit) as grader:
            judged = judge(self._ask(target), grader.run, (grader.repair, *follow_ups))
            if target.name in self.unrelated:
                return None
            return grader.record(judged, self.submission)

    def _use_own_terms(self, judged: LiveJudgement) -> Attempt | None:
        """Return the attempt in a class's own terms, if it has another form than was asked for.

        If no exercise was requested, such a class is judged only by its behaviour. A definition
        that only resembles an exercise by its name, has another form, and computes no known
        attention answers no exercise.
        """
        target, asked = judged.attempt.target, self.settings.exercise is not None
        named = target.name == target.exercise.contract.name and not target.by_position
        signature = self.signatures.get(target.name)
        differs = find_difference(judged, signature, asked=asked, named=named)
        resembles = not asked and not named
        right = summarise_status(judged.verdicts) is Status.PASSED
        if (right or judged.attempt.repair is not None) and not differs.batches:
            return None
        if judged.failure is not None or not (resembles or differs):
            return None
        if signature is None:  # a function of other things than queries, keys and values
            self.unrelated |= {target.name: target.exercise} if resembles and differs else {}
            return None
        from headcheck.grader.grading import open_mode

        judged.live.restart()
        binding = self._recognise(signature)
        foreign = resembles or (
            not asked and is_foreign(target.exercise.contract, self.unrecognised.get(target.name))
        )
        if binding is None and foreign and differs and self.failure is None:
            self.unrelated[target.name] = target.exercise
        if binding is None or not differs.allows(binding, asked=asked):
            return None
        if differs.layers:
            binding = say_exercise(binding, target.exercise.slug)
        if not asked and not (named and binding.broken):
            return self._ask(open_mode.make_open_target(signature, binding))
        adapted = open_mode.make_adapted_target(signature, target, binding)
        return None if adapted is None else self._ask(adapted)

    def _ask(self, target: Target) -> Attempt:
        depth = self.settings.get_depth(target.exercise)
        return ask(replace(target, exercise=target.exercise.at(depth)))

    def _recognise(self, signature: Signature) -> "Binding | None":
        # Here, since an answer in the form that its exercise asks for needs none of this.
        from headcheck.grader.grading import open_mode
        from headcheck.properties.binding.binding import Binding

        try:
            found, layer = open_mode.recognise(self.session, signature, self.settings)
        except SubmissionFailed as failed:
            self.failure = self.failure or (signature.name, failed)
            return None
        if layer is not None:
            self.layers[signature.name] = signature, layer
        if isinstance(found, Binding):
            self.bindings.setdefault(signature.name, found)
            return found
        self.unrecognised[signature.name] = found
        return None

    def _recognise_alone(self, signature: Signature) -> "Binding | None":
        """Return a class's binding; if headcheck fails here, other classes still get verdicts."""
        recognise = functools.partial(self._recognise, signature)
        return fault.contain(recognise, None, SandboxError, BadContract)

    def record_nothing(self, problem: ErrorRecord | None) -> SubmissionRecord:
        """Return the record of a file that holds nothing to judge."""
        if self.failure is not None and not self.unrecognised:
            name, failed = self.failure
            problem = explain_load_error(failed, name)
        problem = problem or explain_unrelated(self.unrelated)
        if self.unrecognised:
            problem = explain_unrecognised(problem, self.unrecognised)
        return self._record_error(problem)

    def _record_error(self, error: ErrorRecord, target: Target | None = None) -> SubmissionRecord:
        given = self.submission, self.settings, self.began, error, target
        return record_error(self.session, *given)
