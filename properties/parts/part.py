"""A part: one addition to plain attention, and all that follows from it for a contract."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headcheck.properties.parts.weight import Weight
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import SizeRules

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract

Problem = tuple[tuple[str, ...], object, str]
"""the keys that lead to the fault, the wrong value if the keys lead to several, and advice"""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a class without a contract whose parameters were assigned."""

    shapes: Mapping[str, tuple[int, ...]]
    case: Case
    is_named: bool = True
    """whether names told which tensors are the projections"""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A size or a limit that only cases of this part have."""

    name: str
    """the field of the case"""
    choose: Callable[[SizeRules, Case], int | float]
    """returns the value for a case, which may leave it open"""
    levels: tuple[int | float, ...]
    """the values that a case set covers"""
    argument: str = ""
    """the quantity that an argument takes, if that is another one"""
    absent: int | float = 0
    """the value in a case of other attention"""
    words: str = ""
    """what such an argument of a class says"""

    @property
    def taken(self) -> str:
        """The quantity that an argument of a constructor takes."""
        return self.argument or self.name


def _yield_nothing(contract: Contract) -> Iterator[Any]:
    yield from ()


def _read_nothing(contract: Contract, found: Found) -> Iterator[Contract]:
    yield contract


@dataclass(frozen=True, slots=True)
class Part:
    """One addition to plain attention."""

    name: str
    is_in: Callable[[Contract], bool]
    """whether a contract has this part"""
    brings: frozenset[Capability] = frozenset()
    """the capabilities that properties of this part need"""
    breaks: frozenset[Capability] = frozenset()
    """the laws of plain attention that no longer hold"""
    weights: tuple[Weight, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    keys: tuple[str, ...] = ()
    """the fields of a contract that mean nothing without the part"""
    missing: str = ""
    """what else a contract with one of these fields needs"""
    needed: Mapping[Capability, str] = field(default_factory=lambda: MappingProxyType({}))
    """what to write in a contract that lists a capability without having the part"""
    find_problems: Callable[[Contract], Iterator[Problem]] = _yield_nothing
    """yields what contradicts the part in a contract that has it"""
    make_steps: Callable[[Contract, Case], Mapping[str, Any]] = lambda contract, case: {}
    """returns the fields of `reference.Variant` that tell the steps of the part"""
    describe: Callable[[Contract], str] = lambda contract: ""
    """names the part in the description of a class: "sinks" """
    list_sentences: Callable[[Contract], Iterator[str]] = _yield_nothing
    """yields what a drafted statement says of its steps, after the formula"""
    names: re.Pattern[str] | None = None
    """the names of its parameters in classes without a contract, if these tell them from others"""
    read: Callable[[Contract, Found], Iterator[Contract]] = _read_nothing
    """yields the contracts that a class with its parameters may mean, the usual one first"""


def holds(name: str) -> Callable[[Contract], bool]:
    """Return a test for whether a contract stores the parameter of this name."""
    return lambda contract: any(name in mapping.holds for mapping in contract.mappings)


def takes(*quantities: str) -> Callable[[Contract], bool]:
    """Return a test for whether a contract's arguments take one of these quantities."""
    return lambda contract: bool(list_taken(contract) & {*quantities})


def list_taken(contract: Contract) -> set[str]:
    """Return the quantities that arguments take, including the fields of a config."""
    taken = (each for argument in contract.arguments for each in (argument, *argument.fields))
    return {argument.quantity for argument in taken}


HEAD_DIMS = range(1, 65)
"""the widths of a head to try"""


def list_widths(contract: Contract) -> list[int]:
    """Return the widths of a head that the contract allows."""
    fixed, rules = (contract.sizes or {}).get("head_dim"), contract.size_rules
    allows = (lambda _: True) if rules is None else rules.get_test("head_dim")
    return [width for width in HEAD_DIMS if allows(width) and fixed in (None, width)]


def may_be_odd(contract: Contract, share: float = 1.0) -> bool:
    """Return whether the contract allows a head of which this share is not an even number."""
    return any(width * share % 2 != 0 for width in list_widths(contract))
