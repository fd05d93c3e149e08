"""Run the properties of a contract as single tests of trusted code in this process.

A variant is one property on one device in one dtype. Variants can run in any order and in separate
processes with the same outcome: the prerequisites of a property run with it, once per process.
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
    """The outcome of a variant: passed, unless there is a `failure` or it was `skipped`."""

    failure: str = ""
    skipped: str = ""
    blocks: bool = False
    """whether properties that depend on this one are skipped"""


class PropertySuite:
    """An implementation and the variants that it can be checked on."""

    def __init__(
        self, namespace: Mapping[str, Any], contract: Contract, cases: int = DEFAULT_COUNT
    ) -> None:
        self.harness = Harness(make_subject(namespace), contract)
        self.case_set = generate_case_set(contract, cases)
        self._outcomes: dict[PropertyVariant, VariantOutcome] = {}

    def list_variants(self, devices: Sequence[str]) -> list[PropertyVariant]:
        """Return all variants on these devices, always in the same order."""
        return [
            PropertyVariant(prop, device, dtype)
            for device in devices
            for prop in families.select_for_contract(self.harness.requested_contract)
            for dtype in prop.dtypes
        ]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Observations so far that are worth reporting but no failures."""
        return tuple(self.harness.notes.values())

    def get_outcome(self, variant: PropertyVariant) -> VariantOutcome:
        """Check a variant once. Raises only for internal errors."""
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
    """Return the variants that this one depends on, in its own dtype where possible."""
    return [
        PropertyVariant(required, variant.device, dtype)
        for required in variant.prop.requires
        if required.applies_to(contract)
        for dtype in ((variant.dtype,) if variant.dtype in required.dtypes else required.dtypes)
    ]


def make_outcome(verdict: Verdict) -> VariantOutcome:
    """Return a verdict as the outcome of a test."""
    if verdict.status is Status.PASSED:
        if verdict.cases_tried == 0:
            return VariantOutcome(skipped="the contract allows no case of the kind that this needs")
        return VariantOutcome()
    if verdict.unsupported:
        return VariantOutcome(skipped=f"not supported: {verdict.failure}")
    return VariantOutcome(failure=verdict.message, blocks=True)
