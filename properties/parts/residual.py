"""Tokens that a module adds to what its attention gives: a residual.

The module is judged by its attention: calls take the tokens off again. What is judged is right up
to the rounding of the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headcheck.properties.parts.part import Part

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract
    from headcheck.properties.terms.case import Case


def _make_steps(contract: Contract, case: Case) -> Mapping[str, Any]:
    return {"adds_tokens": True}


RESIDUAL = Part(
    name="residual",
    is_in=lambda contract: contract.call_form.adds_tokens,
    make_steps=_make_steps,
)
