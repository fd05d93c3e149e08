"""Dropout behind the output layer, at the rate of the dropout of weights.

Source: Vaswani et al. 2017, section 5.4 (arXiv:1706.03762), "residual dropout"; the code of GPT-2,
nanoGPT and minGPT has it inside of attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem, list_taken
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that there is a rate, and an output layer behind which numbers are dropped."""
    if "dropout" not in list_taken(contract):
        text = "numbers of the output are dropped at the rate of an argument: let one take dropout"
        yield ("output_dropout",), None, text
    if not contract.stores("W_o"):
        text = "dropout acts behind the output layer: say where W_o is, or leave it out"
        yield ("output_dropout",), None, text


OUTPUT_DROPOUT = Part(
    name="dropout of the output",
    is_in=lambda contract: contract.output_dropout,
    brings=frozenset({Capability.OUTPUT_DROPOUT}),
    needed={Capability.OUTPUT_DROPOUT: "write output_dropout = true"},
    find_problems=_find_problems,
    describe=lambda contract: "dropout of the output",
)
