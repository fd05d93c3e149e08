"""The door of open mode: a definition goes in, and what became of it comes out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from headcheck.exercises import BY_SLUG
from headcheck.exercises.exercise import BadContract
from headcheck.grader import fault
from headcheck.grader.grading.definition_grader import grade_target
from headcheck.grader.grading.events import Listener
from headcheck.grader.grading.infer import OPEN, Target
from headcheck.grader.grading.open_mode.layers import LayerJudge
from headcheck.grader.grading.open_mode.own_terms import (
    answers_nothing,
    make_own_target,
    say_beyond,
)
from headcheck.grader.grading.open_mode.recognition import Recognition, recognise
from headcheck.grader.grading.open_mode.several_masks import (
    add_masks,
    give_first_mask,
    list_other_masks,
    takes_mask,
)
from headcheck.grader.grading.open_mode.targets import make_open_target
from headcheck.grader.grading.other_form import Difference
from headcheck.grader.grading.outcome import Outcome, list_records
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.layer_code import LayerCode
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import SandboxError
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.binding.binding import Binding
from headcheck.properties.binding.calls import keep_one_mask
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.violations.violation import Status


@dataclass(frozen=True, slots=True)
class OpenJudge:
    """Judges the definitions of one file by what they compute."""

    session: Session
    submission: Submission
    settings: Settings
    emit: Listener

    def judge(self, signature: Signature) -> Outcome:
        """Judge a definition that belongs to no exercise."""
        found = self._recognise(signature)
        if found.binding is None:
            return Outcome(signature.name, None, found)
        return Outcome(signature.name, self._judge_masks(signature, found.binding), found)

    def find_own_terms(
        self, signature: Signature, target: Target, differs: Difference
    ) -> tuple[Outcome, Target | None]:
        """Return what is known of an answer of another form, and its target in its own terms."""
        found = self._recognise(signature)
        nothing = answers_nothing(found, target, differs)
        known = Outcome(target.name, None, found, target.exercise if nothing else None)
        return known, make_own_target(found, target, differs)

    def judge_further(self, outcome: Outcome) -> Outcome:
        """Judge a class that was judged in its own terms with each of its other masks, too."""
        found, record = outcome.recognition, outcome.record
        if found is None or found.binding is None or record is None or record.exercise != OPEN:
            return outcome
        return replace(outcome, record=self._judge_masks(found.signature, found.binding, record))

    def judge_beyond(self, signature: Signature, slug: str) -> Outcome:
        """Judge a right answer whose calls take more; it has a record if that is wrong."""
        found = self._recognise(signature)
        if found.binding is None:
            return Outcome(signature.name, None, found)
        judged = self._judge_masks(signature, say_beyond(found.binding, slug))
        wrong = judged.status != Status.PASSED.value
        return Outcome(signature.name, judged if wrong else None, found)

    def judge_layers(
        self, outcomes: Sequence[Outcome], classes: Sequence[LayerCode]
    ) -> list[SubmissionRecord]:
        """Return the records of layers around attention, and of attention of no known kind."""
        tried = [each.recognition for each in outcomes if each.recognition is not None]
        seen = {r.signature.name: (r.signature, r.layer) for r in tried if r.layer is not None}
        kinds = {r.signature.name: r.unbound.kind for r in tried if r.unbound is not None}
        whole = [each.name for each in outcomes if _has_layers(each)]
        given = self.session, self.submission, classes, list_records(outcomes), whole, kinds
        judge = LayerJudge(*given)
        run = partial(judge.judge, seen)
        return fault.contain(run, list[SubmissionRecord](), SandboxError, BadContract)

    def _recognise(self, signature: Signature) -> Recognition:
        """Recognise a definition; if headcheck fails here, others still get verdicts."""
        run = partial(recognise, self.session, signature, self.settings)
        return fault.contain(run, Recognition(signature), SandboxError, BadContract)

    def _judge_masks(
        self, signature: Signature, binding: Binding, known: SubmissionRecord | None = None
    ) -> SubmissionRecord:
        """Return the record of the mask with which a class loses most; the first may be known."""
        others = list_other_masks(signature, binding)
        alone = {name: self._recognise(keep_one_mask(signature, name)) for name in others}
        bound = {n: f.binding for n, f in alone.items() if f.binding and takes_mask(f.binding)}
        if known is not None and not bound:
            return known
        records = [self._grade(make_open_target(signature, binding, apart=bound))]
        for name, each in bound.items():
            both = give_first_mask(each, signature, binding)
            records.append(self._judge_both_masks(alone[name].signature, both))
        return min(records, key=_compute_share)

    def _judge_both_masks(self, signature: Signature, binding: Binding) -> SubmissionRecord:
        """Return the record of a class with two masks; they may have to be added to the scores."""
        first, added = self._grade(make_open_target(signature, binding)), add_masks(binding)
        if added is None or first.status == Status.PASSED.value:
            return first
        second = self._grade(make_open_target(signature, added))
        return max((first, second), key=_compute_share)

    def _grade(self, target: Target) -> SubmissionRecord:
        return grade_target(self.session, self.submission, self.settings, target, self.emit)


def _compute_share(record: SubmissionRecord) -> float:
    return record.score / record.max_score if record.max_score else 0.0


def _has_layers(outcome: Outcome) -> bool:
    """Whether a judged definition has layers for queries, keys and values."""
    if outcome.record is None:
        return False
    found, exercise = outcome.recognition, BY_SLUG.get(outcome.record.exercise or "")
    contract = exercise.contract if exercise else None
    if found is not None and found.binding is not None:
        contract = found.binding.contract
    return contract is not None and contract.has(Capability.PROJECTED)
