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
    """Whether a definition stops in calls for one sequence, which is all that an exercise asks for.

    It may be meant for a batch of sequences.
    """
    stops = judged.attempt.repair is not None or any(map(_crashes_in_forward, judged.verdicts))
    return stops and not contract.has(Capability.BATCH)


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
