"""Transform the cases of a set into cases that a property needs."""

from collections.abc import Callable, Iterable
from typing import Any

from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.terms.case import Case

CaseTransform = Callable[[Case], Case | None]
COUNTED = ("tokens", "d_in")
"""Sizes that must be at least two in checks that compare, for example, two tokens."""


def identity(case: Case) -> Case | None:
    """Leave a case unchanged."""
    return case


def at_least(**sizes: int) -> CaseTransform:
    """Raise the sizes of a case to at least these values."""

    def transform(case: Case) -> Case | None:
        raised = {name: max(getattr(case, name), least) for name, least in sizes.items()}
        if "tokens" in raised:
            raised["context_length"] = max(case.context_length, raised["tokens"])
        return case.change(**raised)

    return transform


def with_values(**values: Any) -> CaseTransform:
    """Set these fields of a case."""
    return lambda case: case.change(**values)


def shorten(contract: Contract, case: Case, tokens: int) -> Case:
    """Return the case with so many tokens for the same module; itself if that takes one length."""
    return case.change(tokens=tokens) if contract.has(Capability.ANY_LENGTH) else case


def compose(first: CaseTransform, second: CaseTransform) -> CaseTransform:
    """Apply one transform after another."""

    def transform(case: Case) -> Case | None:
        transformed = first(case)
        return None if transformed is None else second(transformed)

    return transform


def transform_cases(
    contract: Contract, transform: CaseTransform, cases: Iterable[Case]
) -> tuple[Case, ...]:
    """Return the transformed cases that the contract allows, without duplicates."""
    fitted = (contract.fit(changed) for case in cases if (changed := transform(case)) is not None)
    # Fitting may undo what the property needs: then the transform would change the case again.
    stable = (
        case
        for case in fitted
        if (again := transform(case)) is not None
        and (again is case or (contract.fit(again) == case and not _is_single(case, again)))
    )
    return tuple(dict.fromkeys(stable))


def _is_single(case: Case, wanted: Case) -> bool:
    """Return whether a contract fixes one token or number although a property needs several."""
    return any(getattr(case, name) == 1 < getattr(wanted, name) for name in COUNTED)
