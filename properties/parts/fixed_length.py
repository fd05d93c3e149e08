"""Sequences of one length only: those of a window, or as many tokens as a table has numbers for.

Source: Liu et al. 2021, Swin Transformer, section 3.2 (arXiv:2103.14030).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Found, Part, Problem, takes
from headcheck.properties.terms.call_form import TokenAxes
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.size_rules import SizeRules, parse_sizes

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract

SQUARES = parse_sizes("tokens=1,4,9,16,25,36,49,64")
"""the numbers of tokens in square windows"""
RECTANGLES = parse_sizes("tokens=1,4,6,8,9,12,15,16,18,20,24,25,30,35,36,40,42,48,49,56,60,63,64")
"""numbers of tokens in windows of several rows, most of which are not square"""


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that a window whose side is an argument is square."""
    tests = (contract.size_rules or SizeRules()).get_test("tokens")
    if takes("side")(contract) and any(tests(n) and math.isqrt(n) ** 2 != n for n in range(1, 99)):
        text = "a window with one side has a square number of tokens: write size_rules ="
        yield ("arguments",), None, f'{text} "{SQUARES}"'
    if Capability.CONTEXT in contract.capabilities:
        text = "sequences have one length, so there is no longest one: leave `context` out"
        yield ("capabilities",), None, text
    if "context" in contract.call or "key" in contract.call:
        yield ("call",), None, "sequences have one length: let a call take x alone"


def _read(contract: Contract, found: Found) -> Iterator[Contract]:
    """Yield the contract if a table of numbers is the reason for the length, or a window."""
    if not takes("side", "sides", "tokens")(contract):
        yield contract
    elif contract.call_form.axes is TokenAxes.WINDOW:
        yield contract.with_sizes(SQUARES)
    elif contract.stores("W_rel"):
        sizes = SQUARES if takes("side")(contract) else RECTANGLES
        yield contract if takes("tokens")(contract) else contract.with_sizes(sizes)


FIXED_LENGTH = Part(
    name="sequences of one length",
    is_in=takes("side", "sides", "tokens"),
    breaks=frozenset({Capability.ANY_LENGTH}),
    find_problems=_find_problems,
    read=_read,
)
