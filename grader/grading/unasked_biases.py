"""Check a submission without the biases that nobody asked for.

An unwanted bias adds numbers that no check has set, so that hardly any property holds. But this is
only one mistake, and a separate property reports it. So all other properties are checked again with
these biases set to zero, and training does not change them.
"""

from collections.abc import Mapping, Sequence

from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.properties.families.contract import (
    the_biases_follow_the_option,
    there_are_no_other_parameters,
)
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.property import Verdict
from headcheck.properties.terms.peculiarity import BIASES
from headcheck.properties.violations.violation import Note, Status, SubmissionFailed, Violation

TOLD_BY = (the_biases_follow_the_option, there_are_no_other_parameters)
"""the properties that fail because of such a bias"""


def find_unasked_biases(live: LiveChecker, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the paths of unwanted biases if other properties also fail.

    Such a bias belongs to a layer whose weight the statement asks for.
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


def make_note(biases: Sequence[str]) -> Note:
    """Return the note which says that these biases were zero in all other checks."""
    names = f"`{biases[0]}`" if len(biases) == 1 else f"the {len(biases)} biases"
    were = "was" if len(biases) == 1 else "were"
    text = f"{names} {were} zero in all other checks: the statement asks for no such bias"
    return Note("unasked_bias", text)
