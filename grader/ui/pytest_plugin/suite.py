"""The properties of a contract as single tests of trusted code in this process.

A cell is one property on one device in one dtype. Cells can be tried in any order and apart from
each other, and come to the same end: what a property rests on is tried with it, once a process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.grading import devices
from grader.sandbox.grader_side.subject import make_subject
from properties import families
from properties.cases.case_set import DEFAULT_COUNT, generate_case_set
from properties.check import check_property
from properties.contract import Contract
from properties.harness.harness import Harness
from properties.property import Property, Verdict
from properties.violation import Note, Status


@dataclass(frozen=True)
class PropertyVariant:
    """One property on one device in one dtype."""

    prop: Property
    device: str
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.prop.name}[{self.device}-{self.dtype}]"


@dataclass(frozen=True)
class VariantOutcome:
    """How a cell ended: well, unless there is a `failure` or a reason why it was `skipped`."""

    failure: str = ""
    skipped: str = ""
    blocks: bool = False
    """whether what rests on this property is not worth trying"""


class PropertySuite:
    """One implementation and the cells that it can be tried on."""

    def __init__(
        self,
        namespace: Mapping[str, Any],
        contract: Contract,
        cases: int = DEFAULT_COUNT,
    ) -> None:
        self.harness = Harness(make_subject(namespace), contract)
        self.case_set = generate_case_set(contract, cases)
        self._outcomes: dict[PropertyVariant, VariantOutcome] = {}

    def list_variants(self, devices: Sequence[str]) -> list[PropertyVariant]:
        """Every cell on these devices, always in the same order."""
        return [
            PropertyVariant(prop, device, dtype)
            for device in devices
            for prop in families.select_for_contract(self.harness.requested_contract)
            for dtype in prop.dtypes
        ]

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is worth saying though it makes nothing wrong, as far as it is known by now."""
        return tuple(self.harness.notes.values())

    def get_outcome(self, variant: PropertyVariant) -> VariantOutcome:
        """Try a cell, unless that has been done. Raises only what is our own fault."""
        if variant not in self._outcomes:
            self._outcomes[variant] = self._check_variant(variant)
        return self._outcomes[variant]

    def _check_variant(self, variant: PropertyVariant) -> VariantOutcome:
        missing = devices.explain_unavailable(variant.device) or devices.explain_missing_dtype(
            variant.device, variant.dtype
        )
        if missing:
            return VariantOutcome(skipped=missing)
        for earlier in list_prerequisites(variant, self.harness.requested_contract):
            if self.get_outcome(earlier).blocks:
                return VariantOutcome(skipped=f"not tried, because of {earlier.name}", blocks=True)
        devices.make_deterministic(variant.device)
        bank = [replace(case, dtype=variant.dtype, device=variant.device) for case in self.case_set]
        chosen = variant.prop.select_cases(self.harness.requested_contract, bank)
        return make_outcome(check_property(variant.prop, self.harness, chosen))


def list_prerequisites(variant: PropertyVariant, contract: Contract) -> list[PropertyVariant]:
    """The cells that must hold for this one to be worth trying: in its own dtype where possible."""
    return [
        PropertyVariant(required, variant.device, dtype)
        for required in variant.prop.requires
        if required.applies_to(contract)
        for dtype in (required.dtypes if variant.dtype not in required.dtypes else (variant.dtype,))
    ]


def make_outcome(verdict: Verdict) -> VariantOutcome:
    """A verdict in the terms of a test."""
    if verdict.status is Status.PASSED:
        if verdict.cases_tried == 0:
            return VariantOutcome(skipped="the contract allows no case of the kind that this needs")
        return VariantOutcome()
    if verdict.unsupported:
        return VariantOutcome(skipped=f"not supported: {verdict.failure}")
    return VariantOutcome(failure=verdict.message, blocks=True)
