"""Tell whether a class has another form than an exercise asks for, and needs its own terms."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headcheck.grader.grading.attempts import Judgement
from headcheck.grader.grading.recording import summarise_status
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.families.constructor import the_config_holds_all_it_needs
from headcheck.properties.families.contract import (
    FORM,
    the_output_has_the_right_shape,
    there_are_no_other_parameters,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.property import Verdict
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.signatures.vocabulary import guess_quantity, list_given
from headcheck.properties.violations.violation import NOT_FAILED, Reason, Status

LACKS_AXIS = re.compile(
    r"Dimension out of range|not enough values to unpack|too many indices|does not equal the number"
    r"|tuple index out of range|expected \d+D|must be a \dD tensor|einsum|einops"
)
"""errors of a class that is given too few axes"""
OTHER_ARGUMENTS = re.compile(
    r"TypeError|\btakes (no|\d+) arguments?|, which was not given|unexpected keyword"
)
"""matches errors of a class that was called with arguments it does not take"""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a definition differs from what an exercise asks for."""

    asked: bool
    """whether this exercise was asked for"""
    named: bool
    """whether the definition has the exercise's name, and does not only resemble it"""
    batches: bool
    """whether it may be meant for batches of the sequences that the exercise has"""
    layers: bool
    """whether it has the exercise's name, and computes with more layers"""
    form: bool
    """whether its arguments, calls or results differ"""

    def __bool__(self) -> bool:
        return self.batches or self.layers or self.form

    @property
    def resembles(self) -> bool:
        """Whether only its name suggests the exercise."""
        return not self.asked and not self.named


def find_difference(
    judged: Judgement, signature: Signature | None, *, asked: bool
) -> Difference | None:
    """Return how a definition differs from the exercise that it was judged by.

    None if it may not be judged in its own terms: it is right, it stops, or it has the form that
    the exercise asks for. The exercise may have been `asked` for.
    """
    target, verdicts = judged.attempt.target, judged.verdicts
    contract = target.exercise.contract
    named = target.name == contract.name and not target.by_position
    differs = Difference(
        asked,
        named,
        not asked and _may_take_batches(contract, judged),
        not asked and named and _adds_layers(verdicts),
        _has_other_form(verdicts, asked=asked, named=named)
        or (not asked and signature is not None and _takes_heads(signature, contract)),
    )
    right = summarise_status(verdicts) is Status.PASSED
    if (right or judged.attempt.repair is not None) and not differs.batches:
        return None
    return differs if judged.failure is None and (differs.resembles or differs) else None


def _takes_heads(signature: Signature, contract: Contract) -> bool:
    """Whether a class is told how many heads it has, and an exercise does not ask for any."""
    named = {guess_quantity(p.name) for p in signature.constructor}
    return "heads" in named and not contract.has(Capability.HEADS)


def _may_take_batches(contract: Contract, judged: Judgement) -> bool:
    """Whether a definition stops for want of an axis that one sequence does not have.

    If an exercise asks for single sequences only, it may be meant for a batch of them.
    """
    repair = judged.attempt.repair
    stops = [v.message for v in judged.verdicts if _crashes_in_forward(v)]
    stops += [] if repair is None else [repair.stop.message]
    return not contract.has(Capability.BATCH) and any(map(LACKS_AXIS.search, stops))


def _has_other_form(verdicts: Sequence[Verdict], *, asked: bool, named: bool) -> bool:
    """Whether a definition's arguments, calls or results differ from the exercise's.

    If this exercise was requested, or the definition has the exercise's name, an error within
    `forward` counts as a mistake and not as another form. Otherwise a class that crashes at most
    lengths might be taken for another kind of attention because of the remaining lengths.
    """
    form = (*FORM, the_config_holds_all_it_needs)
    unmet = [v for v in verdicts if v.property in form and v.status not in NOT_FAILED]
    if asked:
        return any(v.status is Status.FAILED or _takes_others(v) for v in unmet)
    return any(not (named and _crashes_in_forward(v)) for v in unmet)


def _adds_layers(verdicts: Sequence[Verdict]) -> bool:
    """Whether a definition has more layers than the exercise asks for, and computes with them."""
    failed = {v.property: v for v in verdicts if v.status is Status.FAILED}
    extra = failed.get(there_are_no_other_parameters)
    found = None if extra is None else extra.violation
    more = found is not None and found.reason is Reason.EXTRA_PARAMETERS
    return more and it_equals_the_equation in failed


def takes_more(signature: Signature, contract: Contract) -> bool:
    """Whether calls take an option for a cache or the like, which an exercise does not ask for."""
    form = contract.call_form
    asked = {*(form.given or ()), *(form.without_weights or ())}
    asked |= set() if form.cache is None else {form.cache.argument}
    options = (p.name for p in signature.call if p.has_default and p.name not in asked)
    return any(map(list_given, options))


def _takes_others(unmet: Verdict) -> bool:
    return OTHER_ARGUMENTS.search(unmet.message) is not None


def _crashes_in_forward(unmet: Verdict) -> bool:
    called = unmet.property is the_output_has_the_right_shape
    return called and unmet.status is Status.CRASHED and not _takes_others(unmet)
