"""Learned numbers that are added to scores: for distances, for offsets in a window, for pairs.

Sources: Raffel et al. 2020, T5, section 2.1 (arXiv:1910.10683); Liu et al. 2021, Swin Transformer,
section 3.2 (arXiv:2103.14030); `reference.relative` has the equations.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headcheck.properties.parts.part import Found, Part, Problem, takes
from headcheck.properties.parts.positions import NEEDED, Positions, find_problems_of_places
from headcheck.properties.parts.weight import Packing, Weight, heads, one
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract
    from headcheck.reference import LearnedBias


class OffsetOrder(StrEnum):
    """The order in which the offsets of a window are numbered, from the smallest on."""

    QUERY_MINUS_KEY = "query minus key, by rows"
    KEY_MINUS_QUERY = "key minus query, by rows"
    QUERY_MINUS_KEY_BY_COLUMNS = "query minus key, by columns"
    KEY_MINUS_QUERY_BY_COLUMNS = "key minus query, by columns"

    @property
    def key_first(self) -> bool:
        return self.startswith("key")

    @property
    def by_columns(self) -> bool:
        return self.endswith("columns")


class OffsetStart(StrEnum):
    """The offset that has the number 0; the numbers of offsets before it go on from the end."""

    SMALLEST = "the smallest offset"
    NO_ROWS = "the smallest offset in the same row"
    NO_COLUMNS = "the smallest offset in the same column"
    NOTHING = "the offset of a place from itself"

    @property
    def first(self) -> tuple[bool, bool]:
        """Whether it is the smallest one in each direction, down and to the right."""
        smallest = self is OffsetStart.SMALLEST
        return smallest or self is OffsetStart.NO_COLUMNS, smallest or self is OffsetStart.NO_ROWS


LEARNED = (Positions.RELATIVE, Positions.WINDOWS, Positions.PAIRS)
TABLE_NAMES = re.compile(
    r"rel(ative)?([._]|$)|pos(ition(al)?)?_?(emb\w*_)?bias|att(entio)?n_?bias|dist"
    r"|(^|[._])(bias_?)?tables?$|(^|[._])rp[be]s?(_|$)|^(bias|pos)$",
    re.IGNORECASE,
)
FARTHEST = 128
"""the distance from which on T5's models, and those made like them, have one bucket"""
ONE_ROW = (OffsetStart.SMALLEST, OffsetStart.NOTHING)
"""where the numbers of offsets in a sequence may begin"""
LONGEST = re.compile(r"max|block|context|ctx")
"""words in the name of a length that shorter sequences may have, too"""


def count_rows(contract: Contract, case: Case) -> int:
    """Return how many rows the table of learned numbers has."""
    if contract.positions is Positions.PAIRS:
        return case.context_length**2
    if contract.positions is Positions.WINDOWS:
        height, width = find_sides(contract, case)
        return (2 * height - 1) * (2 * width - 1)
    return contract.relative_buckets


def find_sides(contract: Contract, case: Case) -> tuple[int, int]:
    """Return the height and the width of a window; a sequence is a window of one row."""
    return case.sides if takes("side", "sides")(contract) else (1, case.context_length)


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that there is a table of numbers, and that distances can be sorted."""
    if contract.positions not in LEARNED:
        kinds = 'write positions = "relative", "windows" or "pairs"'
        yield ("positions",), None, f"W_rel is for distances or pairs of positions: {kinds}"
    if not contract.stores("W_rel"):
        text = "a learned number for each head is added to scores: say where W_rel is stored"
        yield ("parameters",), None, text
    if contract.positions is Positions.RELATIVE:
        yield from _find_problems_of_buckets(contract)
    elif not takes("side", "sides", "tokens", "context_length")(contract):
        text = "the table has numbers for so many positions: let an argument take context_length"
        yield ("arguments",), None, f"{text}, tokens, or the side or sides of a window"
    yield from find_problems_of_places(contract)


def _find_problems_of_buckets(contract: Contract) -> Iterator[Problem]:
    causal = Capability.CAUSAL in contract.capabilities
    least, own = (2, contract.relative_buckets) if causal else (4, contract.relative_buckets // 2)
    if contract.relative_buckets < least or contract.relative_buckets % 2:
        text = f"must be even, and at least {least}, not {contract.relative_buckets}"
        yield ("relative_buckets",), None, text
    elif contract.relative_farthest <= own // 2:
        text = f"the first {own // 2} distances have own buckets, so this must be more"
        yield ("relative_farthest",), None, text


def _make_steps(contract: Contract, case: Case) -> Mapping[str, Any]:
    if contract.positions not in LEARNED:
        return {}
    usual = 1 / math.sqrt(case.head_dim) if contract.scale is None else contract.scale
    return {"relative": _make_bias(contract, case, usual if contract.relative_scaled else 1.0)}


def _make_bias(contract: Contract, case: Case, factor: float) -> LearnedBias:
    from headcheck.reference import EveryPair, RelativeBuckets, WindowOffsets

    if contract.positions is Positions.PAIRS:
        return EveryPair(case.context_length, factor=factor)
    if contract.positions is Positions.WINDOWS:
        sides, order = find_sides(contract, case), contract.offset_order
        first = contract.offset_start.first
        return WindowOffsets(*sides, order.key_first, order.by_columns, first, factor=factor)
    hides_later = contract.has(Capability.CAUSAL) or case.causal
    buckets = contract.relative_buckets, contract.relative_farthest, not hides_later
    return RelativeBuckets(*buckets, factor=factor)


def _describe(contract: Contract) -> str:
    if contract.positions is Positions.PAIRS:
        return "a learned number for each pair of positions added to scores"
    if contract.positions is Positions.WINDOWS and takes("side", "sides")(contract):
        return "a learned number for each offset in a window added to scores"
    return "a learned number for each distance added to scores"


def _list_sentences(contract: Contract) -> Iterator[str]:
    """Say which number a score gets; `reference.relative` has the equations."""
    when = "before" if contract.relative_scaled else "after"
    yield f"\nEach score gets the number of its head for {_say_row(contract)}, {when} the scale."
    if contract.positions is Positions.RELATIVE:
        yield _say_buckets(contract)
    elif contract.positions is Positions.WINDOWS:
        yield _say_offsets(contract)


def _say_row(contract: Contract) -> str:
    if contract.positions is Positions.PAIRS:
        return "its query's and its key's position"
    if contract.positions is Positions.WINDOWS:
        return "the offset of its pair"
    return "the bucket of its distance"


def _say_buckets(contract: Contract) -> str:
    causal, count = contract.has(Capability.CAUSAL), contract.relative_buckets
    own = count if causal else count // 2
    sides = "" if causal else f" Later keys have the buckets from {own} on."
    return (
        f"A distance `r` below {own // 2} has the bucket `r`, and a larger one the bucket "
        f"`{own // 2} + ⌊{own - own // 2} ln(r / {own // 2}) / ln({contract.relative_farthest} / "
        f"{own // 2})⌋`, at most {own - 1}.{sides}"
    )


def _say_offsets(contract: Contract) -> str:
    order = contract.offset_order
    offset = "its key's minus its query's" if order.key_first else "its query's minus its key's"
    if not takes("side", "sides")(contract):
        return f"The offset is {offset} position; the table begins with the smallest."
    number = "`(x + W - 1) (2H - 1) + y + H - 1`"
    if not order.by_columns:
        number = "`(y + H - 1) (2W - 1) + x + W - 1`"
    start = contract.offset_start
    if start is not OffsetStart.SMALLEST:
        number = f"{number}, counted on from that of {start}, and from the end before it"
    return (
        "The tokens are the places of a window of height `H` and width `W`, row by row. With `y` "
        f"and `x`, the difference of a pair's rows and columns, {offset}, the number is {number}."
    )


def _read_table(contract: Contract, found: Found) -> Iterator[Contract]:
    """Yield the contracts with the learned numbers that a stored table may hold."""
    own = next((m for m in contract.mappings if m.holds == ("W_rel",)), None)
    if own is None:
        yield contract
        return
    shape = found.shapes[own.path]
    window = replace(contract, positions=Positions.WINDOWS)
    if own.packing in SQUARE:
        of_pairs = own.packing is not Packing.GRID
        yield from [_fix_length(replace(contract, positions=Positions.PAIRS), found)] * of_pairs
        if math.prod(shape) == count_rows(window, found.case) * found.case.heads:
            yield _fix_length(window, found)
        return
    rows = shape[1] if own.transposed else shape[0]
    if rows == count_rows(window, found.case):
        yield _fix_length(window, found)
    placed = replace(contract, positions=Positions.RELATIVE, relative_farthest=FARTHEST)
    for scale in (1.0, None):  # T5 does not scale scores, and models made like it do
        yield replace(placed, relative_buckets=rows, scale=scale)


def iter_conventions(contract: Contract) -> Iterator[Contract]:
    """Yield the contract with its table in every order, and added before the scale.

    Each learns the same function from another table, so each is right if no statement says more.
    """
    starts = OffsetStart if takes("side", "sides")(contract) else ONE_ROW
    orders: Iterable[Mapping[str, Any]] = ({},)
    if contract.positions is Positions.WINDOWS:
        every = itertools.product(OffsetOrder, starts)
        orders = [{"offset_order": order, "offset_start": start} for order, start in every]
    for scaled, order in itertools.product((False, True), orders):
        yield replace(contract, relative_scaled=scaled, **order)


def _fix_length(contract: Contract, found: Found) -> Contract:
    """Return the contract for sequences of one length only, if shorter ones were not accepted."""
    if found.case.tokens < found.case.context_length:
        return contract
    arguments = tuple(
        replace(each, quantity="tokens")
        if each.quantity == "context_length" and not LONGEST.search(each.name.lower())
        else each
        for each in contract.arguments
    )
    if arguments == contract.arguments:
        return contract
    capabilities = contract.capabilities - {Capability.CONTEXT}
    return replace(contract, arguments=arguments, capabilities=capabilities)


def _write_shape(contract: Contract) -> str:
    own = next(m for m in contract.mappings if m.holds == ("W_rel",))
    side = "2n - 1" if contract.positions is Positions.WINDOWS else "n"
    if own.packing is Packing.GRID:
        return f"{side}, {side}, heads"
    if own.packing in PAIRED:
        return f"{'1, ' * (own.packing is Packing.ONE_PAIRED)}heads, {side}, {side}"
    windows = takes("side", "sides")(contract)
    rows = {
        Positions.WINDOWS: "(2H - 1) (2W - 1)" if windows else "2n - 1",
        Positions.PAIRS: "n²",
    }.get(contract.positions, f"{contract.relative_buckets}")
    return f"heads, {rows}" if own.transposed else f"{rows}, heads"


PAIRED = (Packing.PAIRED, Packing.ONE_PAIRED)
SQUARE = (*PAIRED, Packing.GRID)
"""packings of a table as a square for each head, or with its numbers for all heads"""
RELATIVE = Part(
    name="relative positions",
    is_in=lambda contract: contract.positions in LEARNED or contract.stores("W_rel"),
    brings=frozenset({Capability.POSITIONS, Capability.RELATIVE}),
    breaks=frozenset({Capability.PLACELESS, Capability.UNBIASED}),
    keys=(
        "relative_buckets",
        "relative_farthest",
        "relative_scaled",
        "offset_order",
        "offset_start",
    ),
    missing='relative positions: write positions = "relative", "windows" or "pairs"',
    weights=(
        Weight(
            "W_rel",
            31,
            lambda draws: draws.matrix(
                "W_rel",
                count_rows(draws.contract, draws.case),
                draws.case.heads,
                math.sqrt(draws.case.heads),
            ),
            heads=one,
            rows=lambda sizes: sizes.buckets,
            columns=heads,
            is_optional=False,
            words="the numbers of each head that are added to scores",
            is_named=TABLE_NAMES.search,
            packings=(Packing.ROWS, *SQUARE),
            write_shape=_write_shape,
        ),
    ),
    needed={**NEEDED, Capability.RELATIVE: 'write positions = "relative", "windows" or "pairs"'},
    find_problems=_find_problems,
    make_steps=_make_steps,
    describe=_describe,
    list_sentences=_list_sentences,
    names=TABLE_NAMES,
    read=_read_table,
)
