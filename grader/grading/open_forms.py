"""Judge a class that is recognised in every form that its arguments offer.

It may take several masks, or an option that hides later tokens. Its record is that of the form with
which it loses most.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.open_mode import make_open_target
from headcheck.grader.report.records import SubmissionRecord
from headcheck.properties.binding import grounds
from headcheck.properties.binding.binding import Binding
from headcheck.properties.binding.calls import (
    give_context,
    keep_one_mask,
    list_mask_names,
    list_masks_of_others,
)
from headcheck.properties.binding.explaining import iter_switched_on
from headcheck.properties.binding.intent import CAUSAL_OPTION
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import Polarity
from headcheck.properties.violations.violation import Status

C = Capability
OF_OTHERS = re.compile(r".*head_?mask|q(uery|ueries)?_mask")
"""names of masks of heads and of queries, which do other things than masks of keys"""


@dataclass(frozen=True, slots=True)
class FormJudge:
    """Judges a class in all its forms."""

    grade: Callable[[Target], SubmissionRecord | None]
    recognise: Callable[[Signature], Binding | None]

    def judge(
        self, signature: Signature, binding: Binding, known: SubmissionRecord | None = None
    ) -> SubmissionRecord | None:
        """Return the record of the form that loses most; that of the usual one may be known."""
        others = _list_other_masks(signature, binding)
        alone = {name: keep_one_mask(signature, name) for name in others}
        found = {name: self.recognise(each) for name, each in alone.items()}
        bound = {n: each for n, each in found.items() if each and _takes_mask(each)}
        switched = [
            self._hide_later(signature, binding),
            self._give_context(signature, binding),
        ]
        targets = [make_open_target(signature, each) for each in switched if each is not None]
        if known is not None and not bound and not targets:
            return known
        targets = [make_open_target(signature, binding, apart=bound), *targets]
        records = [self.grade(target) for target in targets]
        for name, each in bound.items():
            both = _give_first_mask(each, signature, binding)
            records.append(self._judge_masks(alone[name], both))
        return min(filter(None, records), key=_compute_share, default=None)

    def _hide_later(self, signature: Signature, binding: Binding) -> Binding | None:
        """Return the binding of a class with its option on that hides later tokens."""
        switched = _switch_causality_on(signature, binding)
        found = None if switched is None else self.recognise(switched[1])
        if switched is None or found is None:
            return None
        remark = f"{grounds.OPTION.say(switched[0])}: then it should hide later tokens"
        return replace(found, remarks=(*found.remarks, remark))

    def _give_context(self, signature: Signature, binding: Binding) -> Binding | None:
        """Return the binding of a class that is given the context that its calls may take."""
        asked = give_context(signature)
        alone = {*binding.contract.call_form.inputs} <= {"x", "mask"}
        found = self.recognise(asked[1]) if asked is not None and alone else None
        if asked is None or found is None or found.inexact:
            return None
        remark = grounds.CONTEXT.say(asked[0])
        return replace(found, remarks=(*found.remarks, remark))

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


def _switch_causality_on(signature: Signature, binding: Binding) -> tuple[str, Signature] | None:
    """Return the option of a constructor with which a class should hide later tokens.

    With it comes the signature of the class whose option is on. None without such an option.
    """
    if not binding.contract.has(C.FULL) or signature.causal is not None:
        return None
    options = iter_switched_on(signature)
    found = ((name, own) for name, own in options if CAUSAL_OPTION.fullmatch(name))
    name, own = next(found, ("", signature))
    return (name, replace(own, causal=True)) if name else None
