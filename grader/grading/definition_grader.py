"""Judge one definition of a submission, explain its failures, and record the outcome."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headcheck.grader.grading.attempts import (
    Attempt,
    Judgement,
    Repair,
    Way,
    ask,
    check_properties,
    judge,
    judge_further,
    repeat_alone,
    silence,
)
from headcheck.grader.grading.events import Listener, PropertyJudged, TargetStarted, ignore
from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.infer import Target, is_open
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.grading.recording import (
    Explanation,
    attach_hint,
    record_definition,
    record_note,
    record_repair,
    record_verdicts,
    record_warnings,
    select_certain_notes,
    summarise_status,
)
from headcheck.grader.grading.refusals import excuse_precision, leave_out_refused, list_refusals
from headcheck.grader.grading.repair import find_repair, find_stop, undoes_slip
from headcheck.grader.grading.search import search_further
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.ungraded import explain_load_error, record_ungraded
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.points import add_up, charge_repair
from headcheck.grader.report.records import REPAIRED, DiagnosisRecord, ErrorRecord, SubmissionRecord
from headcheck.grader.sandbox.grader_side.budget import Purpose
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.families.contract import (
    the_biases_follow_the_option,
    there_are_no_other_parameters,
)
from headcheck.properties.harness.harness import Harness
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.property import Verdict
from headcheck.properties.terms.peculiarity import BIASES
from headcheck.properties.violations.violation import Note, Status, SubmissionFailed, Violation

TOLD_BY = (the_biases_follow_the_option, there_are_no_other_parameters)
"""the properties that fail because of such a bias"""


@dataclass(frozen=True, kw_only=True)
class LiveJudgement(Judgement):
    """The result of an attempt, and its process, which can be started again."""

    live: LiveChecker
    warnings: Sequence[Mapping[str, Any]] = ()
    """what was noticed when the definition was loaded"""


FollowUp = Callable[[LiveJudgement], Attempt | None]


def silence_biases(judged: LiveJudgement) -> Attempt | None:
    """Return the attempt without unwanted biases, if these make other properties fail."""
    if judged.attempt.target.contract is not None:
        return None
    biases = find_unasked_biases(judged.live, judged.verdicts)
    return silence(judged.attempt, biases) if biases else None


FOLLOW_UPS: tuple[FollowUp, ...] = (silence_biases, repeat_alone)
"""the attempts that may follow the first one, in this order"""


@dataclass(eq=False)
class DefinitionGrader:
    """Judges a definition. Use as a context manager; it ends the processes of all attempts."""

    reading: Session
    settings: Settings
    emit: Listener = ignore

    def __enter__(self) -> "DefinitionGrader":
        self._opened = contextlib.ExitStack()
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def judge(self, target: Target) -> LiveJudgement:
        """Judge a definition in as many attempts as it takes."""
        return judge(self._ask(target), self.run, (self.repair, *FOLLOW_UPS))

    def judge_as(self, target: Target, judged: LiveJudgement) -> LiveJudgement:
        """Judge a definition as another target than before, if that is possible."""
        return judge_further(judged, self.run, (lambda _: self._ask(target), repeat_alone))

    def _ask(self, target: Target) -> Attempt:
        depth = self.settings.get_depth(target.exercise)
        return ask(replace(target, exercise=target.exercise.at(depth)))

    def run(self, attempt: Attempt, before: LiveJudgement | None) -> LiveJudgement:
        """Run an attempt in a new process, after the process of the best attempt has ended."""
        if before is not None:
            before.live.restart()
        goes_on = before is not None and attempt.way is Way.ALONE
        live = before.live if before is not None and goes_on else self._open(attempt)
        emit = self.emit if attempt == ask(attempt.target) else ignore
        emit(TargetStarted(attempt.target))
        transfer = attempt.target.exercise.contract.transfer or ()
        try:
            warnings = live.session.load(attempt.target.name, *(each.name for each in transfer))
            verdicts = self._check(attempt, live, emit)
        except SubmissionFailed as failed:
            return LiveJudgement(attempt=attempt, failure=failed, live=live)
        repair = attempt.repair
        if repair is not None and not undoes_slip(attempt, verdicts, self.settings.points):
            return LiveJudgement(attempt=attempt, failure=repair.stop, live=live)
        return LiveJudgement(attempt=attempt, verdicts=verdicts, live=live, warnings=warnings)

    def repair(self, judged: LiveJudgement) -> Attempt | None:
        """Return the attempt with the one edit that undoes a slip, if the answer has one."""
        stop = find_stop(judged, self.settings.points)
        if stop is None:
            return None
        with contextlib.suppress(SubmissionFailed):
            edit = find_repair(self.reading, judged.attempt.target.name, stop)
            if edit is not None:
                repair = Repair(edit, stop, self._name_mistakes(judged))
                return replace(judged.attempt, repair=repair, purpose=Purpose.REPAIRED)
        return None

    def _name_mistakes(self, judged: LiveJudgement) -> tuple[DiagnosisRecord, ...]:
        """Return the known mistakes for which an answer stops."""
        if not judged.verdicts:
            return ()
        from headcheck.grader.grading.explanation import name_mistakes

        given = judged.live, judged.attempt.target, self.settings, judged.verdicts
        with contextlib.suppress(SubmissionFailed):
            return name_mistakes(*given)
        return ()

    def _open(self, attempt: Attempt) -> LiveChecker:
        target, exercise = attempt.target, attempt.target.exercise
        session = self.reading.start_successor(
            self.settings.get_limits(exercise),
            by_hand=self.settings.is_by_hand(exercise),
            silenced=attempt.silenced,
            edit=None if attempt.repair is None else attempt.repair.edit,
            purpose=attempt.purpose,
        )
        self._opened.enter_context(contextlib.closing(session))
        contract = replace(exercise.contract, name=target.name)
        harness = Harness(ChannelSubject(session), contract, session)
        if target.contract is not None:
            harness.contract = target.contract
        return LiveChecker(session, harness)

    def _check(self, attempt: Attempt, live: LiveChecker, emit: Listener) -> list[Verdict]:
        """Return the verdicts of an attempt, also on the stated form in a class's own terms."""
        seed, device = self.settings.seed.value, self.settings.device
        verdicts, without_exercise = list[Verdict](), is_open(attempt.target.exercise)
        check = leave_out_refused(live.check) if without_exercise else live.check
        for verdict in check_properties(attempt, live.harness, check, seed, device):
            emit(PropertyJudged(verdict))
            verdicts.append(verdict)
        if without_exercise:
            return excuse_precision(verdicts)
        if attempt.target.contract is None:
            return verdicts

        # An answer in the form that its exercise asks for never needs this.
        from headcheck.grader.grading.stated_form import check_stated_form

        plan = attempt.target.exercise.plan_cases(seed, device)
        return check_stated_form(live, live.harness.requested_contract, plan, verdicts)

    def record(self, judged: LiveJudgement, submission: Submission) -> SubmissionRecord:
        """Search further if requested, explain the failures, and return the record."""
        target, live, verdicts = judged.attempt.target, judged.live, judged.verdicts
        if judged.failure is not None:
            return self._record_failure(judged.failure, judged, submission)
        try:
            searched = search_further(live, target, self.settings, verdicts, self.emit)
            if searched is not None:
                verdicts = [searched.found.get(v.property, v) for v in verdicts]
            hinted = attach_hint(verdicts, judged.warnings)
            if all(verdict.status is Status.PASSED for verdict in hinted):
                given = target.exercise, self.settings.points, live.harness, searched
                explanation = record_verdicts(Explanation(hinted), *given)
            else:  # a quarter of all modules explain failures: a right answer loads none of them
                from headcheck.grader.grading.explanation import explain_failures

                explanation = explain_failures(live, target, self.settings, hinted, searched)
        except SubmissionFailed as failed:
            return self._record_failure(failed, judged, submission)
        silenced, status = judged.attempt.silenced, summarise_status(verdicts)
        noted = [make_bias_note(silenced)] if silenced else []
        certain = select_certain_notes(live.harness, verdicts)
        notes = [
            *record_warnings(judged.warnings, live.harness.contract, status),
            *map(record_note, [*target.notes, *noted, *certain, *list_refusals(verdicts)]),
        ]
        found = verdicts, notes, explanation
        record = record_definition(submission, target, self._began, *found, self.settings.rounding)
        repair = judged.attempt.repair
        return record if repair is None else self._charge(record, repair, live)

    def _charge(
        self, record: SubmissionRecord, found: Repair, live: LiveChecker
    ) -> SubmissionRecord:
        """Return the record of an answer that stops, and was judged with a change."""
        repair = record_repair(found, self.settings.slip)
        source = collect_excerpts(live.session, [(repair.cell, repair.line)])
        charged = replace(
            charge_repair(record, repair),
            status=REPAIRED,
            diagnosis=tuple(dict.fromkeys((*found.diagnosis, *record.diagnosis))),
            source=tuple(dict.fromkeys((*source, *record.source))),
        )
        return add_up(charged, self.settings.rounding)

    def _record_failure(
        self, failed: SubmissionFailed, judged: LiveJudgement, submission: Submission
    ) -> SubmissionRecord:
        target = judged.attempt.target
        error = explain_load_error(failed, target.name)
        given = submission, self.settings, self._began, error, target
        return record_error(judged.live.session, *given)


def grade_target(
    session: Session,
    submission: Submission,
    settings: Settings,
    target: Target,
    emit: Listener = ignore,
) -> SubmissionRecord:
    """Judge a definition as an answer to its target, and return the record."""
    with DefinitionGrader(session, settings, emit) as grader:
        return grader.record(grader.judge(target), submission)


def record_error(
    session: Session,
    submission: Submission,
    settings: Settings,
    began: float,
    error: ErrorRecord,
    target: Target | None = None,
) -> SubmissionRecord:
    """Return the record of something that was not judged, with the lines of the error."""
    source = collect_excerpts(session, [(error.cell, error.line)])
    return replace(record_ungraded(submission, settings, began, error, target), source=source)


def find_unasked_biases(live: LiveChecker, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the paths of biases that nobody asked for, if other properties also fail.

    Such a bias belongs to a layer whose weight the statement asks for. It adds numbers that no
    check has set, so that hardly any property holds. But it is one mistake, which a property of its
    own reports. So the others are checked again with such biases at zero.
    """
    failed = [v for v in verdicts if v.status is Status.FAILED]
    told = [v for v in failed if v.property in TOLD_BY and v.case is not None]
    contract = live.harness.contract
    if not told or len(told) == len(failed) or contract.transfer is not None:
        return ()
    assert told[0].case is not None, "these have one"
    case = BIASES.remove(told[0].case)
    try:
        live.revive()
        built = construct(live.harness.subject, contract, case).module.describe_tensors()
    except (SubmissionFailed, Violation):
        return ()
    asked = contract.get_parameter_shapes(case)
    return tuple(sorted(name for name in built if _is_unasked(name, asked)))


def _is_unasked(name: str, asked: Mapping[str, tuple[int, ...]]) -> bool:
    layer, _, last = name.rpartition(".")
    return last == "bias" and name not in asked and f"{layer}.weight" in asked


def make_bias_note(biases: Sequence[str]) -> Note:
    """Return the note which says that these biases were zero in all other checks."""
    names = f"`{biases[0]}`" if len(biases) == 1 else f"the {len(biases)} biases"
    were = "was" if len(biases) == 1 else "were"
    text = f"{names} {were} zero in all other checks: the statement asks for no such bias"
    return Note("unasked_bias", text)
