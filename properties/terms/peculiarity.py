"""Peculiarities: features of some cases that the plainest cases lack.

A student who forgets to cut the mask to the number of tokens has still written attention. So a
definition is first checked on the plainest cases. Then each peculiarity is checked by its own
property. If that property fails, all others use cases without the peculiarity. An unsupported
peculiarity therefore costs only its own property.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from headcheck.properties.terms.case import Case, MaskForm, MaskType, MemoryLayout


@dataclass(frozen=True)
class Peculiarity:
    """A feature of cases: how to detect it in a case, and how to remove it."""

    is_in: Callable[[Case], bool]
    remove: Callable[[Case], Case]


SHORTER_THAN_CONTEXT = Peculiarity(
    lambda case: case.tokens < case.context_length,
    lambda case: replace(case, context_length=case.tokens),
)
DROPOUT = Peculiarity(lambda case: case.dropout > 0, lambda case: replace(case, dropout=0.0))
BIASES = Peculiarity(lambda case: case.bias, lambda case: replace(case, bias=False))
UNUSUAL_MEMORY = Peculiarity(
    lambda case: case.memory is not MemoryLayout.CONTIGUOUS,
    lambda case: replace(case, memory=MemoryLayout.CONTIGUOUS),
)
SINGLE_SEQUENCE = Peculiarity(lambda case: case.batch == 1, lambda case: replace(case, batch=2))
AXIS_OF_ONE = Peculiarity(
    lambda case: 1 in (case.tokens, case.d_in, case.d_out), lambda case: _widen(case)
)
MASK_OF_NUMBERS = Peculiarity(
    lambda case: case.mask_form is not MaskForm.NONE and case.mask_type is not MaskType.BOOL,
    lambda case: replace(case, mask_type=MaskType.BOOL),
)
SINGLE_HEAD = Peculiarity(lambda case: case.heads == 1, lambda case: replace(case, heads=2))
MASK_OF_TWO_AXES = Peculiarity(
    lambda case: case.mask_form is MaskForm.QUERY_KEY,
    lambda case: replace(case, mask_form=MaskForm.BATCH_HEAD_QUERY_KEY),
)
MASK_OF_MORE_AXES = Peculiarity(
    lambda case: case.mask_form not in (MaskForm.NONE, MaskForm.QUERY_KEY),
    lambda case: replace(case, mask_form=MaskForm.QUERY_KEY),
)
DOUBLE_PRECISION = Peculiarity(
    lambda case: case.dtype == "float64", lambda case: replace(case, dtype="float32")
)
ALL = (
    DOUBLE_PRECISION, SHORTER_THAN_CONTEXT, DROPOUT, BIASES, UNUSUAL_MEMORY, SINGLE_SEQUENCE,
    AXIS_OF_ONE, SINGLE_HEAD, MASK_OF_TWO_AXES, MASK_OF_MORE_AXES, MASK_OF_NUMBERS,
)  # fmt: skip


def select_plainest(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases with the fewest peculiarities, in their order."""
    least = min(map(_count, cases), default=0)
    return [case for case in cases if _count(case) == least]


def remove_all(cases: Sequence[Case], peculiarities: Set[Peculiarity]) -> Iterator[Case]:
    """Yield the cases without these peculiarities."""
    for case in cases:
        for each in ALL:
            if each in peculiarities and each.is_in(case):
                case = each.remove(case)
        yield case


def _count(case: Case) -> int:
    return sum(each.is_in(case) for each in ALL)


def _widen(case: Case) -> Case:
    """Return a case whose axes all have several elements."""
    tokens, width = max(case.tokens, 2), max(case.d_in, 2)
    head_dim = case.head_dim if case.d_out > 1 else 2
    context_length = max(case.context_length, tokens)
    return replace(
        case, tokens=tokens, context_length=context_length, d_in=width, head_dim=head_dim
    )
