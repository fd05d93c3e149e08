"""The properties of a contract as single tests of trusted code in this process.

A cell is one property on one device in one dtype. Cells can be tried in any order and apart from
each other, and come to the same end: what a property rests on is tried with it, once a process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.grading import devices
from grader.sandbox.grader_side.subject import of_namespace
from properties import families
from properties.cases.case_set import DEFAULT_COUNT, bank
from properties.check import check
from properties.contract import Contract
from properties.harness.harness import Bench
from properties.property import Property, Verdict
from properties.violation import Note, Status


@dataclass(frozen=True)
class Cell:
    """One property on one device in one dtype."""

    wanted: Property
    device: str
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.wanted.name}[{self.device}-{self.dtype}]"


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: well, unless there is a `failure` or a reason why it was `skipped`."""

    failure: str = ""
    skipped: str = ""
    blocks: bool = False
    """whether what rests on this property is not worth trying"""


class Suite:
    """One implementation and the cells that it can be tried on."""

    def __init__(
        self,
        namespace: Mapping[str, Any],
        contract: Contract,
        cases: int = DEFAULT_COUNT,
    ) -> None:
        self.bench = Bench(of_namespace(namespace), contract)
        self.bank = bank(contract, cases)
        self._outcomes: dict[Cell, Outcome] = {}

    def cells(self, devices: Sequence[str]) -> list[Cell]:
        """Every cell on these devices, always in the same order."""
        return [
            Cell(wanted, device, dtype)
            for device in devices
            for wanted in families.for_contract(self.bench.asked)
            for dtype in wanted.dtypes
        ]

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is worth saying though it makes nothing wrong, as far as it is known by now."""
        return tuple(self.bench.notes.values())

    def outcome(self, cell: Cell) -> Outcome:
        """Try a cell, unless that has been done. Raises only what is our own fault."""
        if cell not in self._outcomes:
            self._outcomes[cell] = self._try(cell)
        return self._outcomes[cell]

    def _try(self, cell: Cell) -> Outcome:
        missing = devices.unavailable(cell.device) or devices.lacks(cell.device, cell.dtype)
        if missing:
            return Outcome(skipped=missing)
        for earlier in rests_on(cell, self.bench.asked):
            if self.outcome(earlier).blocks:
                return Outcome(skipped=f"not tried, because of {earlier.name}", blocks=True)
        devices.pin(cell.device)
        bank = [replace(case, dtype=cell.dtype, device=cell.device) for case in self.bank]
        chosen = cell.wanted.choose(self.bench.asked, bank)
        return outcome_of(check(cell.wanted, self.bench, chosen))


def rests_on(cell: Cell, contract: Contract) -> list[Cell]:
    """The cells that must hold for this one to be worth trying: in its own dtype where possible."""
    return [
        Cell(required, cell.device, dtype)
        for required in cell.wanted.requires
        if required.applies_to(contract)
        for dtype in (required.dtypes if cell.dtype not in required.dtypes else (cell.dtype,))
    ]


def outcome_of(verdict: Verdict) -> Outcome:
    """A verdict in the terms of a test."""
    if verdict.status is Status.PASSED:
        if verdict.tried == 0:
            return Outcome(skipped="the contract allows no case of the kind that this needs")
        return Outcome()
    if verdict.unsupported:
        return Outcome(skipped=f"not supported: {verdict.failure}")
    return Outcome(failure=verdict.message, blocks=True)
