"""Verify and grade attention in PyTorch.

What can be imported from here is stable:

- `check`, which returns a `CheckResult`: grade a definition of a notebook, as the command does. In
  a notebook, `%load_ext headcheck` offers it, too.
- `verify`, which returns a `Verification`: try a class or function by a `Contract`, which
  `load_contract` reads from a file.
- `cases` and `attention_inputs`: Hypothesis strategies for cases of a contract, and for inputs.

All else is internal, and may change. Nothing is imported before it is asked for: the command
imports this package, too, and must start quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from headcheck.exercises.contract_file import load_contract
    from headcheck.grader.ui.jupyter import CheckResult, check
    from headcheck.grader.ui.verifying import Verification, verify
    from headcheck.properties.cases.strategies import attention_inputs, cases
    from headcheck.properties.contracts.contract import Contract

__all__ = [
    "CheckResult", "Contract", "Verification", "attention_inputs", "cases", "check",
    "load_contract", "load_ipython_extension", "verify",
]  # fmt: skip
PLACES = {
    "grader.ui.jupyter": ("check", "CheckResult"),
    "grader.ui.verifying": ("verify", "Verification"),
    "properties.contracts.contract": ("Contract",),
    "exercises.contract_file": ("load_contract",),
    "properties.cases.strategies": ("cases", "attention_inputs"),
}
"""where each name is defined"""


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """What `%load_ext headcheck` does: `%%headcheck`, and `check` where nothing has that name."""
    from headcheck.grader.ui.jupyter import magic

    magic.load(shell)


def __getattr__(name: str) -> Any:
    for place, names in PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
