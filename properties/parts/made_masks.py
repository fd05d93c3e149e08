"""Masks that a module makes itself, of valid lengths or of packed documents, or takes in turn.

Sources: Zhang et al. 2023, "Dive into Deep Learning", section 11.3.2.1 (arXiv:2106.11342), for
valid lengths; Krell et al. 2021, section 3.3 (arXiv:2107.02027), for packed documents; Liu et al.
2021, section 3.2 (arXiv:2103.14030), for the masks of windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem
from headcheck.properties.terms.call_form import EmptyRow, MaskSource, Polarity
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract

KEYS = ("call_form", "mask")


def _is_given_as(*sources: MaskSource) -> Callable[[Contract], bool]:
    return lambda contract: contract.call_form.mask.given_as in sources


def _find_problems(contract: Contract) -> Iterator[Problem]:
    mask = contract.call_form.mask
    if "mask" not in contract.call:
        yield (*KEYS, "given_as"), None, 'a call is given them as its mask: add "mask" to `call`'
    if mask.polarity is not Polarity.KEEP:
        text = "only a mask has a polarity: leave it out"
        yield (*KEYS, "polarity"), None, text


def _find_problems_of_lengths(contract: Contract) -> Iterator[Problem]:
    yield from _find_problems(contract)
    if contract.call_form.mask.axes not in (None, 3):
        text = "lengths are those of queries with 3 axes, of sequences with `keys_only`, or of both"
        yield (*KEYS, "axes"), None, text


def _find_problems_of_documents(contract: Contract) -> Iterator[Problem]:
    mask = contract.call_form.mask
    yield from _find_problems(contract)
    if mask.keys_only or mask.axes is not None:
        key = "keys_only" if mask.keys_only else "axes"
        yield (*KEYS, key), None, "numbers of documents have one form: leave this out"
    if mask.empty_row is not EmptyRow.ANYTHING:
        yield (*KEYS, "empty_row"), None, "a token sees at least itself: leave this out"
    if mask.given_as is MaskSource.BOUNDARIES and Capability.BATCH in contract.capabilities:
        text = "boundaries are those of one sequence of tokens: leave `batch` out"
        yield (*KEYS, "given_as"), None, text
    if Capability.CROSS in contract.capabilities:
        text = "two sequences have no common documents: leave `cross` out"
        yield (*KEYS, "given_as"), None, text


LENGTHS = Part(
    name="valid lengths",
    is_in=_is_given_as(MaskSource.LENGTHS),
    brings=frozenset({Capability.LENGTHS}),
    breaks=frozenset({Capability.ANY_KEYS}),
    needed={Capability.LENGTHS: 'write given_as = "lengths" in [call_form.mask]'},
    find_problems=_find_problems_of_lengths,
)
DOCUMENTS = Part(
    name="packed documents",
    is_in=_is_given_as(MaskSource.DOCUMENTS, MaskSource.BOUNDARIES),
    brings=frozenset({Capability.DOCUMENTS}),
    breaks=frozenset({Capability.ANY_KEYS}),
    needed={Capability.DOCUMENTS: 'write given_as = "documents" in [call_form.mask]'},
    find_problems=_find_problems_of_documents,
)


def _find_problems_of_turns(contract: Contract) -> Iterator[Problem]:
    mask = contract.call_form.mask
    if "mask" not in contract.call or Capability.BATCH not in contract.capabilities:
        text = 'sequences of a batch take masks in turn: add "mask" to `call`, and list `batch`'
        yield (*KEYS, "in_turn"), None, text
    if mask.axes != 3 or mask.keys_only or mask.given_as is not MaskSource.MASK:
        text = "masks of windows have the axes windows, queries and keys: write axes = 3 alone"
        yield (*KEYS, "in_turn"), None, text


IN_TURN = Part(
    name="masks in turn",
    is_in=lambda contract: contract.call_form.mask.in_turn,
    brings=frozenset({Capability.IN_TURN}),
    needed={Capability.IN_TURN: "write in_turn = true in [call_form.mask]"},
    find_problems=_find_problems_of_turns,
)
