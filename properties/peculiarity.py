"""What some cases have and the plainest have not.

A student who forgets to cut the mask to the number of tokens has written attention all the same. So
a definition is first asked for the plainest case; each peculiarity has a claim of its own, which is
checked next, and where that does not hold, everything else is checked on cases without it. A
peculiarity thus costs what is said of it, and nothing else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from properties.case import Case, MaskForm, MaskType, MemoryLayout


@dataclass(frozen=True)
class Peculiarity:
    """Something that a case may have, in the words of a report, and whether a case has it."""

    description: str
    is_in: Callable[[Case], bool]


SHORTER_THAN_CONTEXT = Peculiarity(
    "fewer tokens than context_length", lambda case: case.tokens < case.context_length
)
BIASES = Peculiarity("biases", lambda case: case.bias)
UNUSUAL_MEMORY = Peculiarity(
    "an input that does not lie in memory in one piece",
    lambda case: case.memory is not MemoryLayout.CONTIGUOUS,
)
SINGLE_SEQUENCE = Peculiarity("a batch of one sequence", lambda case: case.batch == 1)
AXIS_OF_ONE = Peculiarity(
    "a single token or a width of one", lambda case: 1 in (case.tokens, case.d_in, case.d_out)
)
MASK_OF_NUMBERS = Peculiarity(
    "a mask of numbers",
    lambda case: case.mask_form is not MaskForm.NONE and case.mask_type is not MaskType.BOOL,
)
MASK_OF_MORE_AXES = Peculiarity(
    "a mask with axes for sequences or heads",
    lambda case: case.mask_form not in (MaskForm.NONE, MaskForm.QUERY_KEY),
)
ALL = (
    SHORTER_THAN_CONTEXT, BIASES, UNUSUAL_MEMORY, SINGLE_SEQUENCE, AXIS_OF_ONE, MASK_OF_NUMBERS,
    MASK_OF_MORE_AXES,
)  # fmt: skip


def select_plainest(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases with the fewest peculiarities, in their order."""
    least = min(map(_count, cases), default=0)
    return [case for case in cases if _count(case) == least]


def select_without(cases: Iterable[Case], peculiarities: Iterable[Peculiarity]) -> Sequence[Case]:
    """Return the cases that have none of these."""
    peculiarities = tuple(peculiarities)
    return [case for case in cases if not any(each.is_in(case) for each in peculiarities)]


def _count(case: Case) -> int:
    return sum(each.is_in(case) for each in ALL)
