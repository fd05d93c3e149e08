"""Judge a class that takes several masks with each of them, and keep the record that loses most."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.open_mode import make_open_target
from headcheck.grader.report.records import SubmissionRecord
from headcheck.properties.binding.binding import Binding
from headcheck.properties.binding.calls import (
    keep_one_mask,
    list_mask_names,
    list_masks_of_others,
)
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import Polarity
from headcheck.properties.violations.violation import Status

C = Capability
OF_OTHERS = re.compile(r".*head_?mask|q(uery|ueries)?_mask")
"""names of masks of heads and of queries, which do other things than masks of keys"""


@dataclass(frozen=True, slots=True)
class MaskJudge:
    """Judges a class that may take several masks."""

    grade: Callable[[Target], SubmissionRecord | None]
    recognise: Callable[[Signature], Binding | None]

    def judge(
        self, signature: Signature, binding: Binding, known: SubmissionRecord | None = None
    ) -> SubmissionRecord | None:
        """Return the record of the mask with which a class loses most; the first may be known."""
        others = _list_other_masks(signature, binding)
        alone = {name: keep_one_mask(signature, name) for name in others}
        found = {name: self.recognise(each) for name, each in alone.items()}
        bound = {n: each for n, each in found.items() if each and _takes_mask(each)}
        if known is not None and not bound:
            return known
        targets = [make_open_target(signature, binding, apart=bound)]
        records = [self.grade(target) for target in targets]
        for name, each in bound.items():
            both = _give_first_mask(each, signature, binding)
            records.append(self._judge_masks(alone[name], both))
        return min(filter(None, records), key=_compute_share, default=None)

    def _judge_masks(self, signature: Signature, binding: Binding) -> SubmissionRecord | None:
        """Return the record of a class with two masks; they may have to be added to the scores."""
        first, added = self.grade(make_open_target(signature, binding)), _add_masks(binding)
        if added is None or first is None or first.status == Status.PASSED.value:
            return first
        second = self.grade(make_open_target(signature, added))
        return max(filter(None, (first, second)), key=_compute_share)


def _compute_share(record: SubmissionRecord) -> float:
    return record.score / record.max_score if record.max_score else 0.0


def _takes_mask(binding: Binding) -> bool:
    """Whether a class is recognised with a mask that its calls are given."""
    return bool(binding.contract.capabilities & {C.MASK, C.PADDING})


def _list_other_masks(signature: Signature, binding: Binding) -> list[str]:
    """Return the names of the masks that a class takes besides the one that is judged."""
    contract, names = binding.contract, list_mask_names(signature.call)
    if not _takes_mask(binding):
        return []
    judged = contract.call_form.mask.argument or names[0]
    optional = {parameter.name for parameter in signature.call if parameter.has_default}
    left_out = {judged, *list_masks_of_others(signature.call)}
    others = (name for name in names if name in optional - left_out)
    return [name for name in others if not OF_OTHERS.fullmatch(name.lower())]


def _give_first_mask(alone: Binding, signature: Signature, binding: Binding) -> Binding:
    """Return the binding by one mask; calls are given the class's first mask, too, hiding nothing.

    So a class that hides only what both masks hide fails.
    """
    first, form = binding.contract.call_form.mask, alone.contract.call_form
    if form.cache is not None or alone.broken is not None:
        return alone  # a mask of tokens that are not there yet has no shape
    named = first.argument or list_mask_names(signature.call)[0]
    own = replace(form, beside=replace(first, argument=named))
    return replace(alone, contract=replace(alone.contract, call_form=own))


def _add_masks(binding: Binding) -> Binding | None:
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
