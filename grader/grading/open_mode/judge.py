"""The door of open mode: a definition goes in, and what became of it comes out."""

import re
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
from headcheck.properties.binding.calls import (
    keep_one_mask,
    list_mask_names,
    list_masks_of_others,
)
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import Polarity
from headcheck.properties.violations.violation import Status

OF_OTHERS = re.compile(r".*head_?mask|q(uery|ueries)?_(\w+_)?mask|\w*mask_q(uery|ueries)?")
"""names of masks of heads and of queries, which do other things than masks of keys"""


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
    return contract is not None and contract.has(C.PROJECTED)


# Each mask of a class that takes several is judged, and the record that loses most is kept.


def takes_mask(binding: Binding) -> bool:
    """Whether a class is recognised with a mask that its calls are given."""
    return bool(binding.contract.capabilities & {C.MASK, C.PADDING})


def list_other_masks(signature: Signature, binding: Binding) -> list[str]:
    """Return the names of the masks that a class takes besides the one that is judged."""
    contract, names = binding.contract, list_mask_names(signature.call)
    if not takes_mask(binding):
        return []
    judged = contract.call_form.mask.argument or names[0]
    optional = {parameter.name for parameter in signature.call if parameter.has_default}
    left_out = {judged, *list_masks_of_others(signature.call)}
    others = (name for name in names if name in optional - left_out)
    return [name for name in others if not OF_OTHERS.fullmatch(name.lower())]


def give_first_mask(alone: Binding, signature: Signature, binding: Binding) -> Binding:
    """Return the binding by one mask; calls are given the class's first mask, too, hiding nothing.

    So a class that hides only what both masks hide fails.
    """
    first, form = binding.contract.call_form.mask, alone.contract.call_form
    if form.cache is not None or alone.broken is not None:
        return alone  # a mask of tokens that are not there yet has no shape
    named = first.argument or list_mask_names(signature.call)[0]
    own = replace(form, beside=replace(first, argument=named))
    return replace(alone, contract=replace(alone.contract, call_form=own))


def add_masks(binding: Binding) -> Binding | None:
    """Return the binding with masks that are added; None if calls get one mask, or others.

    A fused kernel takes both kinds, but a class that adds up its masks means the second.
    """
    form = binding.contract.call_form
    if form.beside is None or {form.mask.polarity, form.beside.polarity} != {Polarity.KEEP}:
        return None
    mask, beside = (
        replace(each, polarity=Polarity.ADDED, dtype=None) for each in (form.mask, form.beside)
    )
    own = replace(form, mask=mask, beside=beside)
    return replace(binding, contract=replace(binding.contract, call_form=own))
