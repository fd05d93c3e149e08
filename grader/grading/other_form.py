"""Tell whether a class has another form than an exercise asks for, and needs its own terms."""

import re
from collections.abc import Sequence

from headcheck.grader.grading.attempts import Judgement, Repair
from headcheck.properties.binding.vocabulary import guess_quantity
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.families.constructor import the_config_holds_all_it_needs
from headcheck.properties.families.contract import FORM, the_output_has_the_right_shape
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import NOT_FAILED, Status

MISSING_FIELD = re.compile(r"'\w*Config' object has no attribute")
"""the error of a config that lacks a field"""
LACKS_AXIS = re.compile(
    r"Dimension out of range|not enough values to unpack|too many indices|does not equal the number"
    r"|tuple index out of range|expected \d+D|must be a \dD tensor|einsum|einops"
)
"""errors of a class that is given too few axes"""
OTHER_ARGUMENTS = re.compile(
    r"TypeError|\btakes (no|\d+) arguments?|, which was not given|unexpected keyword"
)
"""matches errors of a class that was called with arguments it does not take"""


def reads_own_config(repair: Repair | None) -> bool:
    """Whether an answer reads a field that a config of the same file has, and the exercise's lacks.

    An edit that puts this config in the place of the one that is given shows this.
    """
    if repair is None or not MISSING_FIELD.search(repair.stop.message):
        return False
    before, after = repair.edit.before, repair.edit.after
    return guess_quantity(before) == "config" and after.isidentifier()


def may_take_batches(contract: Contract, judged: Judgement) -> bool:
    """Whether a definition stops for want of an axis that one sequence does not have.

    If an exercise asks for single sequences only, it may be meant for a batch of them.
    """
    repair = judged.attempt.repair
    stops = [v.message for v in judged.verdicts if _crashes_in_forward(v)]
    stops += [] if repair is None else [repair.stop.message]
    return not contract.has(Capability.BATCH) and any(map(LACKS_AXIS.search, stops))


def has_other_form(verdicts: Sequence[Verdict], *, asked: bool, named: bool) -> bool:
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


def _takes_others(unmet: Verdict) -> bool:
    return OTHER_ARGUMENTS.search(unmet.message) is not None


def _crashes_in_forward(unmet: Verdict) -> bool:
    called = unmet.property is the_output_has_the_right_shape
    return called and unmet.status is Status.CRASHED and not _takes_others(unmet)
