"""Cases of the bank as a property wants them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from properties.case import Case
from properties.contract import Contract

CaseTransform = Callable[[Case], Case | None]


def identity(case: Case) -> Case | None:
    """Every case will do."""
    return case


def at_least(**sizes: int) -> CaseTransform:
    """Cases raised to these sizes, where the contract lets them be."""

    def transform(case: Case) -> Case | None:
        raised = {name: max(getattr(case, name), least) for name, least in sizes.items()}
        if "tokens" in raised:
            raised["context_length"] = max(case.context_length, raised["tokens"])
        return replace(case, **raised)

    return transform


def with_values(**values: Any) -> CaseTransform:
    """Cases with these fields set."""
    return lambda case: replace(case, **values)


def compose(first: CaseTransform, second: CaseTransform) -> CaseTransform:
    """One preparation after another."""

    def transform(case: Case) -> Case | None:
        prepared = first(case)
        return None if prepared is None else second(prepared)

    return transform


def transform_cases(
    contract: Contract, transform: CaseTransform, drawn: Iterable[Case]
) -> tuple[Case, ...]:
    """The cases as a property wants them and the contract allows them, each once."""
    wanted: dict[Case, None] = {}
    for case in drawn:
        asked = transform(case)
        if asked is not None:
            fitted = contract.fit(asked)
            again = transform(fitted)
            if again is not None and contract.fit(again) == fitted:
                wanted.setdefault(fitted)
    return tuple(wanted)
