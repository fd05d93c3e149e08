"""A context of another width than the tokens, as of an encoder whose model is wider.

Sources: Vaswani et al. 2017, section 3.2.3 (arXiv:1706.03762), where both widths are equal; Jaegle
et al. 2021, "Perceiver", section 3.2 (arXiv:2103.03206), where they are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem, Quantity, takes
from headcheck.properties.terms.call_form import USUAL
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract

READING = frozenset({"W_k", "W_v"})
"""the layers that read the context"""


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that there is a context of which keys and values are made, apart from queries."""
    if not contract.has(Capability.CROSS):
        text = "tokens attend to themselves, which have one width: list `cross`, or leave it out"
        yield ("arguments",), None, text
    if contract.stores("W_down"):
        text = "of latents it is not said which tokens they are made of: leave d_context out"
        yield ("arguments",), None, text
    if contract.call_form == USUAL:
        text = 'a call passes the context by itself: write call = ["x", "context"]'
        yield ("call",), None, text
    for mapping in contract.mappings:
        held = set(mapping.holds)
        if held & READING and held - READING:
            text = "queries are made of tokens, and keys of the context: store them apart"
            yield ("parameters", mapping.path), None, text


CONTEXT_WIDTH = Part(
    name="a context of its own width",
    is_in=takes("d_context"),
    brings=frozenset({Capability.WIDE_CONTEXT}),
    quantities=(
        # The context is wider, so that tokens can stand for it, with zeros behind their numbers.
        Quantity(
            "d_context",
            lambda rules, case: max(case.d_context, case.d_in + 1),
            (3, 1, 8, 12),
            words="the width of the tokens that are attended to",
        ),
    ),
    needed={Capability.WIDE_CONTEXT: "an argument must take d_context"},
    find_problems=_find_problems,
    describe=lambda contract: "a context of its own width",
)
