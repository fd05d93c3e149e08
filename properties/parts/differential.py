"""Two maps for each head, whose difference the weights are.

Source: Ye et al. 2024, "Differential Transformer", eq. 1 (arXiv:2410.05258).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem, holds, may_be_odd
from headcheck.properties.parts.positions import ROTARY, Positions
from headcheck.properties.parts.weight import Packing, Weight, one
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that queries and keys can be halved."""
    if may_be_odd(contract):
        yield ("parameters",), None, "queries and keys are halved: write size_rules = head_dim=even"
    if contract.positions not in (Positions.NONE, *ROTARY):
        yield ("positions",), None, "lambdas work with rotary positions only: leave one out"
    if contract.stores("sinks"):
        text = "no published model has lambdas and sinks, so nothing says which of two maps a sink"
        yield ("parameters",), None, f"{text} belongs to: leave one out"


DIFFERENTIAL = Part(
    name="differential",
    is_in=holds("lambdas"),
    brings=frozenset({Capability.DIFFERENTIAL}),
    breaks=frozenset({Capability.ONE_MAP, Capability.NORMALISED}),
    weights=(
        Weight(
            "lambdas",
            14,
            lambda draws: 0.5 + draws.vector("lambdas", draws.case.heads) / 2,
            rows=one,
            packings=(Packing.ROWS,),
            is_optional=False,
            words="lambda, a number for each head",
            make_example=lambda sizes: (0.5, 2)[: sizes.heads],
            show_example=lambda numbers: f"lambda = {' and '.join(numbers)}",
        ),
    ),
    keys=("lambda_init",),
    missing="differential attention: say where lambdas are stored",
    needed={Capability.DIFFERENTIAL: "a parameter must hold lambdas"},
    find_problems=_find_problems,
)
