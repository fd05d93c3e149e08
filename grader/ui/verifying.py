"""Verify attention from Python: `headcheck.verify` tries the properties of a contract."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcheck.exercises.contract_file import load_contract
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.size_rules import parse_sizes


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`. A property's name has the device and the dtype it was tried with."""

    tried: int
    """how many properties were tried"""
    failures: Mapping[str, str]
    """the message of each property that fails, by name"""
    skipped: Mapping[str, str]
    """why each other property was not tried, by name"""

    @property
    def passed(self) -> bool:
        """Whether some property was tried, and all that were tried hold."""
        return self.tried > 0 and not self.failures

    def __str__(self) -> str:
        counts = f"{self.tried} tried, {len(self.failures)} failed, {len(self.skipped)} skipped"
        told = [f"{name}\n{message}" for name, message in self.failures.items()]
        return "\n\n".join([*told, counts])


def verify(
    target: type | Callable[..., Any],
    contract: Contract | str | Path,
    *,
    sizes: str = "",
    devices: Sequence[str] = ("cpu",),
) -> Verification:
    """Try every property of a contract on a class or function, with its fixed cases.

    The contract may be the path of a contract file. `sizes` limits what the code must support, as
    in "head_dim=even tokens<=64". The code runs in this process, unconfined: verify only code that
    you trust. `pytest --headcheck` also searches for failures on generated cases.

    Raises BadContract, BadSizes.
    """
    asked = contract if isinstance(contract, Contract) else load_contract(Path(contract))
    rules = parse_sizes(sizes) if sizes else None
    suite = PropertySuite({asked.name: target}, asked, sizes=rules)
    outcomes = {each.name: suite.get_outcome(each) for each in suite.list_variants(devices)}
    failures = {name: each.failure for name, each in outcomes.items() if each.failure}
    skipped = {name: each.skipped for name, each in outcomes.items() if each.skipped}
    return Verification(len(outcomes) - len(skipped), failures, skipped)
