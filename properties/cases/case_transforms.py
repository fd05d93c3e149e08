"""Transform the cases of a set into those that a property needs."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from properties.case import Case
from properties.contract import Contract

CaseTransform = Callable[[Case], Case | None]


def identity(case: Case) -> Case | None:
    """Leave a case unchanged."""
    return case


def at_least(**sizes: int) -> CaseTransform:
    """Raise the sizes of a case to at least these."""

    def transform(case: Case) -> Case | None:
        raised = {name: max(getattr(case, name), least) for name, least in sizes.items()}
        if "tokens" in raised:
            raised["context_length"] = max(case.context_length, raised["tokens"])
        return replace(case, **raised)

    return transform


def with_values(**values: Any) -> CaseTransform:
    """Set these fields of a case."""
    return lambda case: replace(case, **values)


def compose(first: CaseTransform, second: CaseTransform) -> CaseTransform:
    """Apply one transform after another."""

    def transform(case: Case) -> Case | None:
        transformed = first(case)
        return None if transformed is None else second(transformed)

    return transform


def transform_cases(
    contract: Contract, transform: CaseTransform, cases: Iterable[Case]
) -> tuple[Case, ...]:
    """Return the transformed cases that the contract allows as they are, without duplicates."""
    fitted = (contract.fit(changed) for case in cases if (changed := transform(case)) is not None)
    return tuple(dict.fromkeys(case for case in fitted if _is_stable(contract, transform, case)))


def _is_stable(contract: Contract, transform: CaseTransform, case: Case) -> bool:
    """Whether fitting has not undone what a property needs, so that it would change it again.

    What has no tokens or heads to choose does with one of them. Tokens of another width than is
    needed to tell numbers apart are no case; where heads decide on it, a width of one is none.
    """
    again = transform(case)
    if again is None or contract.fit(again) != case:
        return False
    return case.d_in == again.d_in or (contract.square and case.d_in > 1)
